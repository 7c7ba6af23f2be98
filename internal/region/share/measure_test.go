//go:build measure

package share

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/rules"
)

var writeCells = flag.String("cells", "", "file for the figures of all cells, for exchange.TestMeasure")

// cell is one place of the matrix of docs/regions.md, as exchange.TestMeasure reads it.
type cell struct {
	Mode    string        `json:"mode"`
	Window  time.Duration `json:"window"`
	Demand  float64       `json:"demand"` // times the limit
	Delay   time.Duration `json:"delay"`  // one way
	Split   string        `json:"split"`
	Regions int           `json:"regions"`
	// Over and Under are percent of the limit, the mean of all windows, and Most the worst window.
	Over  float64 `json:"over"`
	Most  float64 `json:"most"`
	Under float64 `json:"under"`
}

// counted counts what all regions have admitted, by window.
type counted map[int64]int64

func (a counted) admit(w *world, r *simRegion, n int64) { a[r.clock(w.now)/w.limit.Window] += n }

const (
	cellLimit = 1000
	// shareInterval is the default of SLUICE_REGION_SHARE_INTERVAL, in ms.
	shareInterval = 60_000
	// settle is how long demand is steady before a window counts, in ms.
	settle = 120_000
)

// measure runs a cell in virtual time: the windows that begin two minutes after demand is steady.
func measure(t *testing.T, c *cell, parts []float64) {
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: cellLimit, Window: c.Window.Milliseconds()}
	w := newWorld(t, 1, l, c.Regions, shareInterval)
	w.delay = c.Delay.Milliseconds()
	admitted := counted{}
	w.account = admitted
	w.run(3 * shareInterval / step) // a first start: until the others have said what they hold
	for i, r := range w.regions {
		r.demand = c.Demand * parts[i] * cellLimit / c.Window.Seconds()
	}
	first := (w.now+settle+l.Window-1)/l.Window + 1
	windows := int64(8)
	if c.Window > time.Minute {
		windows = 1
	}
	w.run(int((first+windows)*l.Window-w.now) / step)
	for i := range windows {
		n := float64(admitted[first+i])
		over := 100 * (n - cellLimit) / cellLimit
		c.Over += max(0, over) / float64(windows)
		c.Most = max(c.Most, over)
		c.Under += 100 * max(0, min(c.Demand*cellLimit-float64(c.Regions), cellLimit)-n) / cellLimit / float64(windows)
	}
}

// The rows of local_then_global in the matrix. Nothing is ever over the limit, and little is unused two minutes after
// demand is steady.
func TestMeasureShares(t *testing.T) {
	splits := map[string][]float64{"even": {1. / 3, 1. / 3, 1. / 3}, "80/10/10": {.8, .1, .1}, "one region": {1, 0, 0}}
	var cells []cell
	for _, window := range []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour} {
		for _, demand := range []float64{0.5, 1.2, 4, 10} {
			for _, delay := range []time.Duration{20 * time.Millisecond, 80 * time.Millisecond, 150 * time.Millisecond} {
				for _, split := range []string{"even", "80/10/10", "one region"} {
					cells = append(cells, cell{Mode: rules.SpanShares, Window: window, Demand: demand, Delay: delay,
						Split: split, Regions: 3})
				}
			}
		}
	}
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 2 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(cells)); i = next.Add(1) - 1 {
				measure(t, &cells[i], splits[cells[i].Split])
			}
		})
	}
	wg.Wait()
	for _, c := range cells {
		if c.Over > 0 {
			t.Errorf("%+v: over the limit", c)
		}
		if c.Under > 10 || c.Split == "one region" && c.Under > 5 {
			t.Errorf("%+v: too much is unused", c)
		}
	}
	if *writeCells != "" {
		raw, err := json.Marshal(cells)
		if err == nil {
			err = os.WriteFile(*writeCells, raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	worst := slices.MaxFunc(cells, func(a, b cell) int { return int(1000 * (a.Under - b.Under)) })
	t.Logf("most under: %+v", worst)
}
