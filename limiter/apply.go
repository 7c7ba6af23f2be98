package limiter

import "slices"

// Received is what was applied to one bucket from other regions, the latest from each.
type Received []RegionSums

// RegionSums is a region and its sums.
type RegionSums struct {
	Region string
	Sums   Sums
}

// of returns the sums of a region, which it adds if there are none.
func (h *Received) of(region string) *Sums {
	i := slices.IndexFunc(*h, func(f RegionSums) bool { return f.Region == region })
	if i < 0 {
		i = len(*h)
		*h = append(*h, RegionSums{Region: region})
	}
	return &(*h)[i].Sums
}

// Outcome says what became of sums that a region received. The zero value is Applied.
type Outcome uint8

const (
	// Applied means that they told something new.
	Applied Outcome = iota
	// Repeated means that they are no newer than what was applied before: a repetition, a late message, or
	// one of an incarnation that is over.
	Repeated
	// Shrunk means that one of the sums has grown and another has shrunk, which no region that works
	// sends. Nothing changed. If what was taken has grown, the other region has lost its last writes, and the
	// sums are Applied: it may never give back as much again.
	Shrunk
)

// Apply books in the bucket s what another region spent since the sums that were last applied from it,
// and remembers m in heard, at time now (ms). own are this region's own sums. It returns whether any of
// them changed.
//
// Sums may be lost, repeated and reordered: in the end every region counts the units of all regions. A unit counts in
// the window in which it was spent, by the clock of the region that spent it: units of a window that is over are
// dropped, or counted in the previous window where that still counts. A bucket that drains and a log book them at now;
// units that are two windows old (or times in which the bucket drains) have ceased to count. If the clock of the other
// region is ahead, the bucket moves on to its window.
//
// A later Reset in m empties the bucket of everything that was born before it.
func Apply(l Limit, s *State, own *Sums, received *Received, region string, m *Sums, now int64) (Outcome, bool) {
	changed := s.Exists && l.Algorithm.Traits().kernel.rebase(l, s, now)
	if m.Reset > own.Reset {
		rebuild(l, s, own, received, m.Reset, now)
		changed = true
	}
	last := received.of(region)
	switch {
	case m.Born < own.Reset, m.Born < last.Born:
		return Repeated, changed
	case m.Born > last.Born:
		*last = Sums{Born: m.Born}
	}
	switch {
	case m.Taken <= last.Taken && m.Given <= last.Given && m.Denied <= last.Denied:
		return Repeated, changed
	case m.Taken < last.Taken, m.Taken == last.Taken && (m.Given < last.Given || m.Denied < last.Denied):
		return Shrunk, changed
	}
	bookWindows(l, s, m, last, now)
	*last = *m
	last.Guard = Guard{}
	last.Windows = slices.Clone(m.Windows)
	return Applied, true
}

// rebuild makes void what was born before reset: it empties the bucket and books again what counts. If it makes void
// what this region spent, Born of the bucket is 0, for the store to give it another.
func rebuild(l Limit, s *State, own *Sums, received *Received, reset, now int64) {
	*s = State{Born: s.Born}
	if own.Born > 0 && own.Born < reset {
		*own, s.Born = Sums{Born: max(now, reset, own.Born+1)}, 0
	}
	own.Reset = reset
	bookWindows(l, s, own, &Sums{}, now)
	*received = slices.DeleteFunc(*received, func(f RegionSums) bool { return f.Sums.Born < reset })
	for i := range *received {
		if (*received)[i].Region == Restored {
			continue // own has it
		}
		bookWindows(l, s, &(*received)[i].Sums, &Sums{}, now)
	}
}

// bookWindows books the difference between two sums of a region, the oldest window first.
func bookWindows(l Limit, s *State, m, last *Sums, now int64) {
	var arrived int64
	for _, w := range slices.Backward(m.Windows) {
		units := w.Units
		if i := slices.IndexFunc(last.Windows, func(o WindowUnits) bool { return o.Number == w.Number }); i >= 0 {
			units -= last.Windows[i].Units
		}
		if units != 0 {
			arrived += book(l, s, m.Shape, w.Number, units, now)
		}
	}
	if arrived > 0 {
		l.Algorithm.Traits().kernel.spend(l, s, now, arrived, "")
		s.Exists = true
	} else if arrived < 0 {
		RefundNow(l, s, now, -arrived)
	}
}

// book books units that were spent in a window elsewhere, or takes them back if they are negative. It returns the units
// that the caller must book at the present time instead.
func book(l Limit, s *State, shape, number, units, now int64) (arrived int64) {
	g := gridOf(l)
	if g.firstHit && shape == g.shape() {
		bookFirstHit(l, s, number, units, now)
		return 0
	}
	at := now
	if g.dated && s.Exists {
		at = max(now, s.At)
	}
	ahead := number - g.number(at)
	switch {
	case shape != g.shape(), ahead > g.parts: // another limit, or clocks that differ too much
		return units
	case ahead <= -g.kept: // it no longer counts
	case !g.dated:
		return units
	case ahead < 0:
		bookEarlier(l, s, g.start(number), at, units)
	case ahead == 0:
		bookAt(l, s, at, units)
	default:
		bookAt(l, s, g.start(number), units)
	}
	return 0
}

// bookFirstHit books units of the window that began at start elsewhere. They count in the window that is open
// here; if there is none, theirs is opened.
func bookFirstHit(l Limit, s *State, start, units, now int64) {
	at := max(now, start)
	switch {
	case start-now > l.Window: // clocks that differ too much
		at = now
	case at-start >= l.Window: // it is over
		return
	case units > 0 && (!s.Exists || at-s.At >= l.Window):
		*s = State{Exists: true, Born: s.Born, At: start}
	}
	bookAt(l, s, at, units)
}

// bookAt books units in the window of a time, or takes them back.
func bookAt(l Limit, s *State, at, units int64) {
	if units > 0 {
		l.Algorithm.Traits().kernel.spend(l, s, at, units, "")
		s.Exists = true
		return
	}
	l.Algorithm.Traits().kernel.refund(l, s, at, Charged{At: at, Weight: -units})
}

// bookEarlier books units of a window that is over and still counts, at time now.
func bookEarlier(l Limit, s *State, start, now, units int64) {
	switch {
	case units < 0:
		l.Algorithm.Traits().kernel.refund(l, s, now, Charged{At: start, Weight: -units})
		return
	case l.Algorithm.Traits().Setting == SettingBuckets:
		bucketsKernel{}.backdate(l, s, start, now, units)
	default:
		counterKernel{}.backdate(l, s, now, units)
	}
	s.Exists = true
}
