package limiter

// A lease is units that were charged before their holder spends them, in its own memory. Whether that never exceeds
// the limit depends on how charged units cease to count; docs/hotkeys.md has the argument for each algorithm.

// leasePart is the shortest window or sub-window of which leases are worth a call, ms.
const leasePart = 20

// Leasable reports whether leases of the limit can be spent without ever exceeding it.
func (l *Limit) Leasable() bool {
	switch t := l.Algorithm.Traits(); {
	case !t.Divisible:
		return false
	case t.Decay == DecayDrain:
		return l.Count > 0
	}
	return l.Window/max(1, l.Buckets) > leasePart
}

// LeaseLife returns for how many ms after its charge a lease of the limit, which is Leasable, may be spent, and whether
// the units that may be spent shrink evenly to nothing during that time. d is the decision that charged the lease, so
// some units count now.
//
// Windows: until the window (or sub-window) that it was charged in ends, because there its units count the same
// whenever they are spent. Buckets: the level in the store drains whether or not the units are spent, so they must not
// outlast it. A lease that shrinks in proportion to the level, and twice as fast as that, never holds more than its
// part of it.
func (l *Limit) LeaseLife(d *Decision) (life int64, shrinks bool) {
	switch l.Algorithm.Traits().Decay {
	case DecayAtOnce:
		return d.Reset, false
	case DecaySliding:
		return d.Reset - l.Window, false
	}
	return d.Reset / 2, true
}

// LeaseFloor returns how many units a lease of a draining bucket, in which used units count, must add so that it lasts
// for target ms: the level must be twice what drains in that time.
func (l *Limit) LeaseFloor(used, target int64) int64 {
	return int64(2.2*float64(l.Count)/float64(l.Window)*float64(target)) + 1 - used
}
