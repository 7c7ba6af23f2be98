//go:build measure

package share

import (
	"flag"
	"slices"
	"testing"
	"time"

	"sluice/internal/region/matrix"
	"sluice/limiter"
	"sluice/rules"
)

var writeCells = flag.String("cells", "", "file for the figures of all cells, for exchange.TestMeasure")

// counted counts what all regions have admitted, by window.
type counted map[int64]int64

func (a counted) admit(w *world, r *simRegion, n int64) { a[r.clock(w.now)/w.limit.Window] += n }

const (
	// shareInterval is config.RegionShareInterval, in ms.
	shareInterval = 60_000
	// settle is how long demand is steady before a window counts, in ms.
	settle = 120_000
)

// measure runs a cell in virtual time: the windows that begin two minutes after demand is steady.
func measure(t *testing.T, c *matrix.Cell) {
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: matrix.Limit, Window: c.Window.Milliseconds()}
	w := newWorld(t, 1, l, c.Regions, shareInterval)
	w.delay = c.Delay.Milliseconds()
	admitted := counted{}
	w.account = admitted
	w.run(3 * shareInterval / step) // a first start: until the others have said what they hold
	parts := c.Parts()
	for i, r := range w.regions {
		r.demand = c.Demand * parts[i] * matrix.Limit / c.Window.Seconds()
	}
	first := (w.now+settle+l.Window-1)/l.Window + 1
	windows := 8
	if c.Window > time.Minute {
		windows = 1
	}
	w.run(int((first+int64(windows))*l.Window-w.now) / step)
	for i := range windows {
		c.Count(admitted[first+int64(i)], c.Demand*matrix.Limit, windows)
	}
}

// The rows of local_then_global in the matrix. Nothing is ever over the limit, and little is unused two minutes after
// demand is steady.
func TestMeasureShares(t *testing.T) {
	cells := matrix.Cells(rules.SpanShares, 0)
	matrix.Measure(cells, func(c *matrix.Cell) { measure(t, c) })
	for _, c := range cells {
		if c.Over > 0 {
			t.Errorf("%+v: over the limit", c)
		}
		if c.Under > 10 || c.Split == "one region" && c.Under > 5 {
			t.Errorf("%+v: too much is unused", c)
		}
	}
	matrix.Write(t, *writeCells, cells)
	worst := slices.MaxFunc(cells, func(a, b matrix.Cell) int { return int(1000 * (a.Under - b.Under)) })
	t.Logf("most under: %+v", worst)
}
