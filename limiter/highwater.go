package limiter

import "context"

// HighWater names a high-water mark: the most units that have counted at once in any bucket of a group. It bounds the
// units that any of these buckets still holds, even after answers were lost. An Ask names the group of its bucket.
type HighWater struct {
	// Name is the name of the group, at most 64 bytes.
	Name string
	// Life is the longest time, ms, for which a spent unit counts, if a Decision's Reset does not say it; 0 if it does.
	Life int64
	// Margin is added to how long a unit counts, ms.
	Margin int64
}

// HighWaterReader reads the high-water marks.
type HighWaterReader interface {
	// HighWater returns the mark of each group in which something may still count. None is lower than what counts in a
	// bucket of its group when HighWater is called; MaxExact stands for an amount that is not known.
	HighWater(ctx context.Context) (map[string]int64, error)
}

// Water is a high-water mark as it is stored: Level counts until Until (ms), and then Next until NextUntil, which is
// less and later. The zero value means that no unit counts.
type Water struct{ Level, Until, Next, NextUntil int64 }

// At returns the mark at a time.
func (m Water) At(now int64) int64 {
	switch {
	case m.Until > now:
		return m.Level
	case m.NextUntil > now:
		return m.Next
	}
	return 0
}

// Raise returns the mark after a bucket has held some units, at a time. They count until another one.
func (m Water) Raise(level, until, now int64) Water {
	if m.Until <= now {
		m = Water{Level: m.Next, Until: m.NextUntil}
	}
	if m.Until <= now {
		m = Water{}
	}
	if level >= m.Level {
		return Water{Level: level, Until: max(until, m.Until, m.NextUntil)}
	}
	m.Next, m.NextUntil = max(level, m.Next), max(until, m.NextUntil)
	return m
}

// waterGrains is the number of steps into which Life is divided. The time for which units count is rounded up to steps,
// so that not every unit rewrites the mark.
const waterGrains = 8

// Note returns the mark after a request on a bucket of the group was decided at a time. d is the decision on a.
func (m Water) Note(op Op, a *Ask, d *Decision, allowed bool, now int64) Water {
	switch {
	case a.HighWater == nil || a.Weight == 0 || a.Look && op != OpCharge:
		return m
	case op != OpCharge && (!allowed || op != OpTake && op != OpSettle): // a charge books what does not fit as well
		return m
	}
	level := a.Limit.Capacity() - d.Remaining
	if op != OpTake && d.Remaining == 0 {
		level = MaxExact // it may be above the limit
	}
	return m.Raise(level, a.HighWater.until(now, d.Reset), now)
}

// until is until when units that were spent at a time count.
func (h *HighWater) until(now, reset int64) int64 {
	grain := h.Life/waterGrains + 1
	until := min(max(reset, h.Life), MaxExact/2) + h.Margin + now
	if h.Life > 0 {
		until += grain - until%grain
	}
	return min(until, MaxExact)
}
