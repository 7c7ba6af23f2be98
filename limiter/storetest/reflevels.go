package storetest

import (
	"math/big"

	"sluice/limiter"
)

// levelModel: the level at the last change, under the window it was written
// with. A changed window rounds it up to the new unit of drain.
type levelModel struct {
	used   bool
	last   int64
	window int64
	held   *big.Rat
}

func (m *levelModel) at(t int64) int64 {
	if m.used {
		return max(t, m.last)
	}
	return t
}

// under is the level at the last change in units of 1/window.
func (m *levelModel) under(l limiter.Limit) *big.Rat {
	if m.window == l.Window {
		return m.held
	}
	return lesser(roundUp(m.held, l.Window), most(l))
}

func (m *levelModel) rebase(l limiter.Limit, now int64) {
	if !m.used || l.Count == 0 {
		return
	}
	full := ceil(over(times(whole(l.Burst), l.Window), l.Count))
	if m.last-now > full {
		m.held, m.window, m.last = m.under(l), l.Window, now
	}
}

func (m *levelModel) level(l limiter.Limit, t int64) *big.Rat {
	if !m.used {
		return new(big.Rat)
	}
	drained := over(times(whole(m.at(t)-m.last), l.Count), l.Window)
	return atLeastZero(minus(m.under(l), drained))
}

// most is the largest level that a store holds.
func most(l limiter.Limit) *big.Rat { return fraction(limiter.MaxExact, l.Window) }

func (m *levelModel) spend(l limiter.Limit, now, w int64, _ string) int64 {
	m.held = lesser(plus(m.level(l, now), w), most(l))
	m.used, m.last, m.window = true, m.at(now), l.Window
	return m.last
}

// stillHeld is the part of c that has not drained by t, at most level.
func stillHeld(l limiter.Limit, c charge, t int64, level *big.Rat) *big.Rat {
	drained := over(times(whole(max(0, t-c.at)), l.Count), l.Window)
	drained = atLeastZero(minus(drained, whole(c.base)))
	return lesser(atLeastZero(minus(lesser(whole(c.weight), most(l)), drained)), level)
}

func (m *levelModel) refund(l limiter.Limit, now int64, c charge) int64 {
	level := m.level(l, now)
	give := stillHeld(l, c, m.at(now), level)
	if give.Sign() > 0 {
		m.held, m.last, m.window = minus(level, give), m.at(now), l.Window
	}
	return floor(give)
}

func (m *levelModel) lastSpent(_ limiter.Limit, now int64) []int64 { return []int64{m.at(now)} }

// gcraModel: the theoretical arrival time, an instant, never further ahead than
// a full burst takes to drain. A changed count rounds it up to the new unit.
type gcraModel struct {
	used bool
	tat  *big.Rat
}

func (m *gcraModel) level(l limiter.Limit, t int64) *big.Rat {
	if !m.used || l.Count == 0 {
		return new(big.Rat)
	}
	tat := roundUp(m.tat, l.Count)
	return atLeastZero(over(times(minus(tat, whole(t)), l.Count), l.Window))
}

// set sets the level at now.
func (m *gcraModel) set(l limiter.Limit, now int64, level *big.Rat) {
	m.used = true
	m.tat = plus(over(times(level, l.Window), l.Count), now)
}

func (m *gcraModel) rebase(l limiter.Limit, now int64) {
	if full := whole(l.Burst); m.level(l, now).Cmp(full) > 0 {
		m.set(l, now, full)
	}
}

func (m *gcraModel) spend(l limiter.Limit, now, w int64, _ string) int64 {
	if l.Count > 0 {
		m.set(l, now, lesser(plus(m.level(l, now), w), whole(l.Burst)))
	}
	return now
}

func (m *gcraModel) refund(l limiter.Limit, now int64, c charge) int64 {
	if l.Count == 0 {
		return 0
	}
	level := m.level(l, now)
	give := stillHeld(l, c, now, level)
	if give.Sign() > 0 {
		m.set(l, now, minus(level, give))
	}
	return floor(give)
}

func (m *gcraModel) lastSpent(_ limiter.Limit, now int64) []int64 { return []int64{now} }
