package limiter

import "math"

// GuardMode says whether a take of a limit that spans regions is held to the region's part of what is left, and what
// that part is before the other regions have been heard. The zero value is GuardOff.
type GuardMode uint8

const (
	// GuardOff lets the region spend whatever is left.
	GuardOff GuardMode = iota
	// GuardOpen lets it spend its part, and all of it until the others have its first sums.
	GuardOpen
	// GuardShare lets it spend its part, and an equal one, rounded up, until the others have its first sums.
	GuardShare
)

// FullShare is Guard.Share of a region that may spend all that is left.
const FullShare int64 = 1 << 16

// MostTold is the most that a guard knows the others to have heard of in a window. So what is untold says whether a
// charge was so large that sums are nearly full.
const MostTold = MaxExact / 4

// Guard bounds what a region spends of one bucket between two pieces of news: at most its share of what was left when
// the others last heard of it. It is kept beside the region's own sums and does not travel.
type Guard struct {
	// Share is the region's share of what is left, in 1/FullShare; 0 if the others have not heard of it yet. The part
	// is rounded down, or up if Lead: of all regions one at most should lead.
	Share int64
	Lead  bool
	// Told is how many units of the newest window the others have heard of.
	Told int64
}

// Regions is what a store must know of the regions to hold takes back. The zero value is a region that is alone.
type Regions struct {
	// Count is the number of regions, with this one.
	Count int64
	// Wait is Decision.RetryAfter of a take that is held back, ms: about the time to the next news.
	Wait int64
	// Parts is of how many parts of its limit a bucket must hold more than one before takes are exported; 0 for all.
	// See WorthParts.
	Parts int64
	// Restores: a store that has lost its data exports nothing until they were restored; see Exporter.BeginRestore.
	Restores bool
}

// share is the guard in force.
func (r Regions) share(mode GuardMode, g Guard) (share int64, lead bool) {
	switch {
	case mode == GuardOff:
		return FullShare, true
	case g.Share > 0:
		return g.Share, g.Lead
	case mode == GuardShare:
		return FullShare / max(r.Count, 1), true
	}
	return FullShare, true
}

// Held reports whether the region's guard holds back a take of w units that fits the bucket s at time now (ms), and if
// so how many units it would let pass. What is left is what the region may count on and what it has spent since the
// others heard of it: by now it knows what those had spent by then.
func (m *Sums) Held(l Limit, s *State, now, w int64, mode GuardMode, r Regions) (left int64, held bool) {
	share, lead := r.share(mode, m.Guard)
	if share == FullShare || w == 0 {
		return 0, false
	}
	remaining, _ := l.Algorithm.Traits().kernel.figures(l, s, now) // it fits
	remaining -= w
	mine := w
	if len(m.Windows) > 0 && m.Windows[0].Number == m.numberNow(l, s, now) {
		mine += max(0, m.Windows[0].Units-m.Guard.Told)
	}
	mine = min(mine, l.Capacity()-remaining) // the others have drained
	part := float64(float64(share)*float64(remaining+mine)) / float64(FullShare)
	if lead {
		part = math.Ceil(part)
	} else {
		part = math.Floor(part)
	}
	if float64(mine) <= part {
		return 0, false
	}
	return max(0, int64(part)-(mine-w)), true
}

// numberNow is the number of the window in which a take at time now is booked.
func (m *Sums) numberNow(l Limit, s *State, now int64) int64 {
	g := m.grid(l)
	switch {
	case g.firstHit && s.Exists && s.Used > 0 && now < s.At+l.Window:
		return s.At
	case g.dated && !g.firstHit && s.Exists:
		return g.number(max(now, s.At))
	}
	return g.number(now)
}

// Deny counts units that were held back, so that the others learn what the region was asked for.
func (m *Sums) Deny(now, w int64) {
	if m.Born == 0 {
		m.Born = max(now, 1, m.Reset)
	}
	m.Denied = min(addSat(m.Denied, w), MaxExact)
}

// Told sets the guard of a region whose sums the others have as they were exported.
func (m *Sums) Told(told *Exported) {
	if told.Guard.Share == 0 || told.Sums.Born != m.Born {
		return
	}
	m.Guard.Share, m.Guard.Lead = told.Guard.Share, told.Guard.Lead
	if t := told.Sums.Windows; len(t) > 0 && len(m.Windows) > 0 && t[0].Number == m.Windows[0].Number &&
		t[0].Units <= MostTold {
		m.Guard.Told = t[0].Units
	}
}
