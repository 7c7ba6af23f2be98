package limiter

import "context"

// Spent is what is known of one bucket that spans regions: this region's own sums, and the latest heard of each other
// one, at time Now (ms) of the store.
type Spent struct {
	Own      Sums
	Received Received
	Now      int64
}

// SpentReader is a Store that tells what each region has spent. It is safe for concurrent use.
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

// Counting is how many units of the sums are in windows that still count at time now (ms): of the last two of a
// sliding window counter, and of the last two periods of a bucket that drains or of a log, where a part of them may not
// count any more. It is 0 if the sums are those of another shape of limit.
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
