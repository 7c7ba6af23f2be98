package limiter

import "math"

// GuardMode says whether a take of a limit that spans regions may spend only the region's part of the units that are
// left, and how large that part is before the other regions have sent their sums. The zero value is GuardOff.
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

// MostTold is the largest number of units of a window that a guard counts as received by the other regions. The rest
// then says whether a charge was so large that sums are nearly full.
const MostTold = MaxExact / 4

// Guard bounds the units that a region spends of one bucket between two updates: at most its share of the units that
// were left when the other regions last received its sums. It is stored with the region's own sums and is not sent.
type Guard struct {
	// Share is the region's share of the units that are left, in 1/FullShare; 0 until the other regions have received
	// its first sums. The part is rounded down, or up if Lead: at most one of all regions should lead.
	Share int64
	Lead  bool
	// Told is the number of units of the newest window that the other regions have received.
	Told int64
}

// Regions is what a store must know of the regions to hold takes back. The zero value is a region that is alone.
type Regions struct {
	// Count is the number of regions, with this one.
	Count int64
	// Wait is Decision.RetryAfter of a take that is held back, ms: about the time until the next update.
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
// so how many units it would let pass. The part is taken of the units that are left now plus the units that the region
// has spent since the other regions received its sums: the region has by now received the units that those had spent at
// that time.
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

// numberNow returns the number of the window that counts a take at time now.
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

// Deny counts units that were held back, so that the other regions learn the demand of this region.
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
