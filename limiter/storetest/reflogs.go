package storetest

import (
	"cmp"
	"math/big"
	"slices"

	"sluice/limiter"
)

// entry is one admitted request of a log, or one slot.
type entry struct {
	at, weight int64
	id         string
}

// mostJoins is how often a charge above the limit of a log joins its two oldest entries.
const mostJoins = 512

// logModel: every admitted request, oldest first. An entry at x counts while
// t < x + window.
type logModel struct{ entries []entry }

// at is t, but never before the newest entry.
func (m *logModel) at(t int64) int64 {
	for _, e := range m.entries {
		t = max(t, e.at)
	}
	return t
}

func (m *logModel) rebase(l limiter.Limit, now int64) {
	ahead := m.at(now) - now
	if ahead <= l.Window {
		return
	}
	for i := range m.entries {
		m.entries[i].at -= ahead
	}
}

func (m *logModel) live(l limiter.Limit, t int64) []entry {
	t = m.at(t)
	var out []entry
	for _, e := range m.entries {
		if t < e.at+l.Window {
			out = append(out, e)
		}
	}
	return out
}

func (m *logModel) level(l limiter.Limit, t int64) *big.Rat {
	t = m.at(t)
	sum, part := new(big.Rat), int64(0)
	for _, e := range m.entries {
		if t < e.at+l.Window {
			part += e.weight
		}
		if part > limiter.MaxExact { // of long logs fractions are too slow to add
			sum, part = plus(sum, part), 0
		}
	}
	return plus(sum, part)
}

func (m *logModel) spend(l limiter.Limit, now, w int64, _ string) int64 {
	t := m.at(now)
	m.entries = m.live(l, now)
	last := len(m.entries) - 1
	if last >= 0 && m.entries[last].at == t {
		m.entries[last].weight = capped(m.entries[last].weight + w)
	} else {
		m.entries = append(m.entries, entry{at: t, weight: w})
	}
	// Only charges get here. The two oldest entries join at the newer of their times.
	for joins := 0; joins < mostJoins && int64(len(m.entries)) > l.Count+l.Burst+1; joins++ {
		m.entries[1].weight = capped(m.entries[0].weight + m.entries[1].weight)
		m.entries = m.entries[1:]
	}
	return t
}

func (m *logModel) refund(l limiter.Limit, now int64, c charge) int64 {
	if m.at(now) >= c.at+l.Window {
		return 0
	}
	for i := range m.entries {
		e := &m.entries[i]
		if e.at != c.at {
			continue
		}
		give := min(c.weight, e.weight)
		if e.weight -= give; e.weight == 0 {
			m.entries = slices.Delete(m.entries, i, i+1)
		}
		return give
	}
	return 0
}

func (m *logModel) lastSpent(limiter.Limit, int64) []int64 {
	var out []int64
	for _, e := range slices.Backward(m.entries) {
		out = append(out, e.at)
	}
	return out
}

// slotModel: a log whose entries have ids.
type slotModel struct{ logModel }

func (m *slotModel) holds(l limiter.Limit, t int64, id string) bool {
	return id != "" && slices.ContainsFunc(m.live(l, t), func(e entry) bool { return e.id == id })
}

func (m *slotModel) spend(l limiter.Limit, now, w int64, id string) int64 {
	t := m.at(now)
	if m.holds(l, now, id) {
		return m.entries[m.lastIndex(id)].at
	}
	m.entries = append(m.live(l, now), entry{at: t, weight: w, id: id})
	return t
}

func (m *slotModel) refund(limiter.Limit, int64, charge) int64 { return 0 }

// oldest returns the id of the live slot that began first, by id among several.
func (m *slotModel) oldest(l limiter.Limit, now int64) string {
	live := m.live(l, now)
	if len(live) == 0 {
		return ""
	}
	return slices.MinFunc(live, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id))
	}).id
}

func (m *slotModel) release(l limiter.Limit, now int64, id string) int64 {
	if id == "" {
		id = m.oldest(l, now)
	}
	if !m.holds(l, now, id) {
		return 0
	}
	i := m.lastIndex(id)
	w := m.entries[i].weight
	m.entries = slices.Delete(m.entries, i, i+1)
	return w
}

func (m *slotModel) renew(l limiter.Limit, now int64, id string) bool {
	if !m.holds(l, now, id) {
		return false
	}
	i := m.lastIndex(id)
	e := m.entries[i]
	e.at = m.at(now)
	m.entries = append(slices.Delete(m.entries, i, i+1), e)
	return true
}

// lastIndex finds the newest entry of id: an older one may have expired.
func (m *slotModel) lastIndex(id string) int {
	for i := len(m.entries) - 1; i >= 0; i-- {
		if m.entries[i].id == id {
			return i
		}
	}
	return -1
}
