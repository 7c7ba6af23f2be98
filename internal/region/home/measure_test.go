//go:build measure

package home

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/limiter"
	"sluice/limiter/memstore"
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
	// Wait is the median of what a check waits.
	Wait time.Duration `json:"wait"`
}

const cellLimit = 1000

// measure runs a cell in virtual time, with the key at home in each region in turn. Demand is steady, and the windows
// after the first one count, by the clock of the home.
func measure(t *testing.T, c *cell, parts []float64) {
	windows := 3
	if c.Window > time.Minute {
		windows = 1
	}
	var waits []time.Duration
	for _, home := range names {
		admitted, waited := someWindows(t, c, parts, home, windows)
		waits = append(waits, waited...)
		for _, n := range admitted[1:] {
			over := 100 * float64(n-cellLimit) / cellLimit
			c.Over += max(0, over) / float64(windows*len(names))
			c.Most = max(c.Most, over)
			under := max(0, min(c.Demand*cellLimit-float64(c.Regions), cellLimit)-float64(n))
			c.Under += 100 * under / cellLimit / float64(windows*len(names))
		}
	}
	slices.Sort(waits)
	c.Wait = waits[len(waits)/2]
}

// someWindows returns what the first window and some more admit, and what checks have waited.
func someWindows(t *testing.T, c *cell, parts []float64, home string, windows int) ([]int64, []time.Duration) {
	admitted, waits := make([]int64, windows+1), []time.Duration(nil)
	synctest.Test(t, func(t *testing.T) {
		stores := map[string]limiter.Store{}
		for _, name := range names {
			m := memstore.New(memstore.Options{})
			t.Cleanup(func() { _ = m.Close() })
			stores[name] = m
		}
		w := worldOver(t, 500*time.Millisecond, stores, &memoryLink{delay: func() time.Duration { return c.Delay }})
		limit := limiter.Limit{Algorithm: limiter.FixedWindow, Count: cellLimit, Window: c.Window.Milliseconds()}
		asks := []limiter.Ask{{Key: at(home, 0), Limit: limit, Weight: 1}}
		began := time.Now() // a window begins
		var mu sync.Mutex
		var wg sync.WaitGroup
		check := func(p *place) {
			sent := time.Now()
			var res limiter.Result
			if err := p.Do(t.Context(), &limiter.Request{Asks: asks}, &res); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			waits = append(waits, time.Since(sent))
			if i := (res.At - began.UnixMilli()) / limit.Window; res.Allowed && i <= int64(windows) {
				admitted[i]++
			}
		}
		r := rand.New(rand.NewPCG(uint64(windows), 12)) //nolint:gosec // a load
		for i, part := range parts {
			if part == 0 {
				continue
			}
			every := time.Duration(float64(c.Window) / (c.Demand * cellLimit * part))
			first := time.Duration(r.Int64N(int64(every)))
			wg.Go(func() {
				for at := first; at < time.Duration(windows+1)*c.Window; at += every {
					<-time.After(at - time.Since(began))
					wg.Go(func() { check(w[names[i]]) })
				}
			})
		}
		wg.Wait()
	})
	return admitted, waits
}

// The rows of global_exact in the matrix. Nothing is over the limit, and nothing is unused: under are the calls that a
// message has gathered at the end of a window.
func TestMeasureExact(t *testing.T) {
	splits := map[string][]float64{"even": {1. / 3, 1. / 3, 1. / 3}, "80/10/10": {.8, .1, .1}, "one region": {1, 0, 0}}
	var cells []cell
	for _, window := range []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour} {
		for _, demand := range []float64{0.5, 1.2, 4, 10} {
			for _, delay := range []time.Duration{20 * time.Millisecond, 80 * time.Millisecond, 150 * time.Millisecond} {
				for _, split := range []string{"even", "80/10/10", "one region"} {
					c := cell{Mode: rules.SpanGlobalExact, Window: window, Demand: demand, Delay: delay, Split: split, Regions: 3}
					if measure(t, &c, splits[split]); c.Most > 0 || c.Under > 0.1 {
						t.Errorf("%+v: over or under the limit", c)
					}
					cells = append(cells, c)
				}
			}
		}
	}
	if *writeCells == "" {
		return
	}
	raw, err := json.Marshal(cells)
	if err == nil {
		err = os.WriteFile(*writeCells, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
