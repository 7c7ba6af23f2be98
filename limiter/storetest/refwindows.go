package storetest

import (
	"math/big"

	"sluice/limiter"
)

// capped limits a number to the largest that a store holds.
func capped(n int64) int64 { return min(n, limiter.MaxExact) }

// fixedModel: the units used in the window of the last change. For first_hit the
// stored time is the start of the window.
type fixedModel struct {
	used bool
	last int64
	sum  int64
}

func (m *fixedModel) at(t int64) int64 {
	if m.used {
		return max(t, m.last)
	}
	return t
}

// span returns the window of t.
func (m *fixedModel) span(l limiter.Limit, t int64) (start, end int64) {
	if l.Align == limiter.AlignFirstHit {
		if m.used && t < m.last+l.Window {
			return m.last, m.last + l.Window
		}
		return t, t + l.Window
	}
	k := floorOf(t-l.Anchor, l.Window)
	return l.Anchor + k*l.Window, l.Anchor + (k+1)*l.Window
}

func (m *fixedModel) count(l limiter.Limit, t int64) int64 {
	if start, _ := m.span(l, m.at(t)); !m.used || m.last < start {
		return 0
	}
	return m.sum
}

func (m *fixedModel) rebase(l limiter.Limit, now int64) {
	if m.used && m.last-now > l.Window {
		m.last = now
	}
}

func (m *fixedModel) level(l limiter.Limit, t int64) *big.Rat { return whole(m.count(l, t)) }

func (m *fixedModel) spend(l limiter.Limit, now, w int64, _ string) int64 {
	t := m.at(now)
	start, _ := m.span(l, t)
	m.sum = capped(m.count(l, now) + w)
	m.used, m.last = true, t
	if l.Align == limiter.AlignFirstHit {
		m.last = start
	}
	return t
}

func (m *fixedModel) refund(l limiter.Limit, now int64, c charge) int64 {
	start, end := m.span(l, m.at(now))
	if c.at < start || c.at >= end {
		return 0
	}
	give := min(c.weight, m.count(l, now))
	if give > 0 {
		m.sum -= give
	}
	return give
}

func (m *fixedModel) lastSpent(_ limiter.Limit, now int64) []int64 { return []int64{m.at(now)} }

// counterModel: the counts of the window of the last change and of the previous window.
type counterModel struct {
	used      bool
	last      int64
	cur, prev int64
}

func (m *counterModel) at(t int64) int64 {
	if m.used {
		return max(t, m.last)
	}
	return t
}

// counts returns the two counts in the window of t.
func (m *counterModel) counts(l limiter.Limit, t int64) (cur, prev int64) {
	if !m.used {
		return 0, 0
	}
	switch floorOf(m.at(t), l.Window) - floorOf(m.last, l.Window) {
	case 0:
		return m.cur, m.prev
	case 1:
		return 0, m.cur
	}
	return 0, 0
}

func (m *counterModel) rebase(l limiter.Limit, now int64) {
	if m.used && m.last-now > 2*l.Window {
		m.last = now
	}
}

func (m *counterModel) level(l limiter.Limit, t int64) *big.Rat {
	cur, prev := m.counts(l, t)
	elapsed := m.at(t) - floorOf(m.at(t), l.Window)*l.Window
	return plus(times(fraction(l.Window-elapsed, l.Window), prev), cur)
}

func (m *counterModel) spend(l limiter.Limit, now, w int64, _ string) int64 {
	m.cur, m.prev = m.counts(l, now)
	m.used, m.last = true, m.at(now)
	m.cur = capped(m.cur + w)
	return m.last
}

func (m *counterModel) refund(l limiter.Limit, now int64, c charge) int64 {
	cur, prev := m.counts(l, now)
	var give int64
	switch floorOf(m.at(now), l.Window) - floorOf(c.at, l.Window) {
	case 0:
		give = min(c.weight, cur)
		cur -= give
	case 1:
		give = min(c.weight, prev)
		prev -= give
	}
	if give > 0 {
		m.cur, m.prev, m.last = cur, prev, m.at(now)
	}
	return give
}

func (m *counterModel) lastSpent(l limiter.Limit, now int64) []int64 {
	return []int64{m.at(now), m.at(now) - l.Window}
}

// bucketsModel: units by the number of their sub-window, with the window and the
// number of sub-windows at that time.
type bucketsModel struct {
	used      bool
	last      int64
	window, n int64
	units     map[int64]int64
}

func (m *bucketsModel) at(t int64) int64 {
	if m.used {
		return max(t, m.last)
	}
	return t
}

func number(l limiter.Limit, t int64) int64 {
	return floor(over(times(whole(t), l.Buckets), l.Window))
}

// under returns the units booked again under l: units of a sub-window move to its end, or to the last change if that is
// earlier.
func (m *bucketsModel) under(l limiter.Limit) map[int64]int64 {
	out := map[int64]int64{}
	for j, u := range m.units {
		if m.window != l.Window || m.n != l.Buckets {
			end := ceil(over(times(whole(j+1), m.window), m.n)) - 1
			j = number(l, min(end, m.last))
		}
		out[j] = capped(out[j] + u)
	}
	return out
}

// keep rewrites the bucket under l.
func (m *bucketsModel) keep(l limiter.Limit, units map[int64]int64) {
	m.units, m.window, m.n = units, l.Window, l.Buckets
}

func (m *bucketsModel) rebase(l limiter.Limit, now int64) {
	memory := over(times(whole(l.Buckets+1), l.Window), l.Buckets)
	if !m.used || m.last-now <= ceil(memory) {
		return
	}
	moved := map[int64]int64{}
	for j, u := range m.under(l) {
		moved[j+number(l, now)-number(l, m.last)] = u
	}
	m.keep(l, moved)
	m.last = now
}

func (m *bucketsModel) level(l limiter.Limit, t int64) *big.Rat {
	t = m.at(t)
	k := number(l, t)
	width := fraction(l.Window, l.Buckets)
	sum := new(big.Rat)
	for j, u := range m.under(l) {
		switch {
		case j > k-l.Buckets:
			sum = plus(sum, u)
		case j == k-l.Buckets:
			left := minus(times(width, k+1), whole(t))
			sum.Add(sum, times(new(big.Rat).Quo(left, width), u))
		}
	}
	return sum
}

func (m *bucketsModel) prune(l limiter.Limit, t int64, units map[int64]int64) {
	for j := range units {
		if j < number(l, t)-l.Buckets {
			delete(units, j)
		}
	}
}

func (m *bucketsModel) spend(l limiter.Limit, now, w int64, _ string) int64 {
	t := m.at(now)
	units := m.under(l)
	m.prune(l, t, units)
	k := number(l, t)
	units[k] = capped(units[k] + w)
	m.keep(l, units)
	m.used, m.last = true, t
	return t
}

func (m *bucketsModel) refund(l limiter.Limit, now int64, c charge) int64 {
	t := m.at(now)
	units := m.under(l)
	m.prune(l, t, units)
	j := number(l, c.at)
	give := min(c.weight, units[j])
	if give > 0 {
		if units[j] -= give; units[j] == 0 {
			delete(units, j)
		}
		m.keep(l, units)
		m.last = t
	}
	return give
}

func (m *bucketsModel) lastSpent(l limiter.Limit, now int64) []int64 {
	var out []int64
	k := number(l, m.at(now))
	for j := k; j >= k-l.Buckets; j-- {
		out = append(out, ceil(over(times(whole(j), l.Window), l.Buckets)))
	}
	return out
}
