package limiter

import "context"

// Spent is what this region knows of one bucket that spans regions: its own sums, and the latest sums received from
// each other region, at time Now (ms) of the store.
type Spent struct {
	Own      Sums
	Received Received
	Now      int64
}

// SpentReader is a Store that reads the units that each region has spent. It is safe for concurrent use.
type SpentReader interface {
	// Spent reads a bucket whose limit spans regions. It changes nothing. Errors are a *StoreError.
	Spent(ctx context.Context, key Key) (Spent, error)
}

// RegionUnits is how many units of a bucket one region has spent, less those it gave back, in windows that still count
// (see Sums.Counting).
type RegionUnits struct {
	Region string
	Units  int64
}

// Over reports whether the sums say nothing any more at time now (ms): none of their units counts, and there was no
// reset. Of sums of another shape of limit that is not known.
func (m *Sums) Over(l Limit, now int64) bool {
	return m.Reset == 0 && (m.Born == 0 || m.Shape == m.grid(l).shape() && m.Counting(l, now) == 0)
}

// Counting is the number of units of the sums in windows that still count at time now (ms). For a sliding window
// counter these are the last two windows; for a bucket that drains and for a log the last two periods, where some of
// the units may no longer count. It is 0 if the sums have another shape of limit.
func (m *Sums) Counting(l Limit, now int64) (units int64) {
	g := gridOf(l)
	if l.Algorithm.Traits().Decay == DecayDrain { // whose limits may differ
		g.length = max(1, m.Shape/(MaxBuckets+1))
	}
	if m.Shape != g.shape() {
		return 0
	}
	for _, w := range m.Windows {
		if g.firstHit && g.covers(w.Number, now) || !g.firstHit && g.number(now)-w.Number < g.kept {
			units = addSat(units, w.Units)
		}
	}
	return units
}
