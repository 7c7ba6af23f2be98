package nearstore

import (
	"math/bits"

	"sluice/limiter"
)

// slice is units of one bucket that are charged in the store and not yet spent.
type slice struct {
	id    string // of its record in the store; "" for no slice
	limit limiter.Limit
	d     limiter.Decision // of the store, when it was taken
	at    int64            // the store's time then, ms
	total int64            // charged
	units int64            // of these, kept for later
	left  int64
	// sent and until are local times: it is never spent from until on, which
	// counts from before the request was sent and so is never late.
	sent, got, until int64
	// leak: it loses units steadily, down to none at until.
	leak bool
}

// leasable reports whether slices of a limit can be spent without ever passing
// it. docs/hotkeys.md has the argument for each algorithm.
func leasable(l *limiter.Limit) bool {
	switch t := l.Algorithm.Traits(); {
	case !t.Divisible:
		return false
	case t.Decay == limiter.DecayDrain:
		return l.Count > 0
	}
	return l.Window/max(1, l.Buckets)*ms > 4*leaseEdge
}

// lasts returns for how many ms after its charge a slice may be spent, and whether it
// leaks meanwhile. d is the decision that charged it, so something counts now.
//
// Windows: until the window (or sub-window) that it was charged in ends, because
// there its units count the same whenever they are spent. Buckets: the level in
// the store drains whether or not the units are spent, so they must not outlast
// it. A slice that leaks in proportion to the level, and twice as fast as that,
// never holds more than its part of it.
func lasts(l *limiter.Limit, d *limiter.Decision) (wait int64, leak bool) {
	switch l.Algorithm.Traits().Decay {
	case limiter.DecayAtOnce:
		return d.Reset, false
	case limiter.DecaySliding:
		return d.Reset - l.Window, false
	}
	return d.Reset / 2, true
}

// available returns the units that may be spent at local time now.
func (sl *slice) available(now int64) int64 {
	if now >= sl.until || now < sl.sent {
		return 0
	}
	if sl.leak {
		// Of wait ms so many are over, rounded up, and one more because the
		// store's clock shows whole ones.
		wait := (sl.until-sl.sent)/ms + 1
		over := (now-sl.sent+ms-1)/ms + 1
		sl.left = min(sl.left, proportion(sl.units, max(0, wait-over), wait))
	}
	return sl.left
}

// proportion is units*part/whole, rounded down; 0 <= part <= whole.
func proportion(units, part, whole int64) int64 {
	hi, lo := bits.Mul64(uint64(units), uint64(part)) //nolint:gosec // not negative
	q, _ := bits.Div64(hi, lo, uint64(whole))         //nolint:gosec // not negative
	return int64(q)                                   //nolint:gosec // at most units
}

// decision returns the decision of a take from the slice. What remains is what
// remained in the store when the slice was taken, plus the rest of the slice.
func (sl *slice) decision(now int64) limiter.Decision {
	d := sl.d
	d.Remaining += sl.left
	if d.Reset > 0 {
		d.Reset = max(1, d.Reset-(now-sl.got)/ms)
	}
	return d
}
