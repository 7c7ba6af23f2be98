//go:build measure

package home

import (
	"flag"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/region/matrix"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/rules"
)

var writeCells = flag.String("cells", "", "file for the figures of all cells, for exchange.TestMeasure")

// measure runs a cell in virtual time, with the key at home in each region in turn. Demand is steady, and the windows
// after the first one count, by the clock of the home.
func measure(t *testing.T, c *matrix.Cell) {
	windows := 3
	if c.Window > time.Minute {
		windows = 1
	}
	var waits []time.Duration
	for _, home := range names {
		admitted, waited := someWindows(t, c, home, windows)
		waits = append(waits, waited...)
		for _, n := range admitted[1:] {
			c.Count(n, c.Demand*matrix.Limit, windows*len(names))
		}
	}
	slices.Sort(waits)
	c.Wait = waits[len(waits)/2]
}

// someWindows returns what the first window and some more admit, and what checks have waited.
func someWindows(t *testing.T, c *matrix.Cell, home string, windows int) ([]int64, []time.Duration) {
	admitted, waits := make([]int64, windows+1), []time.Duration(nil)
	synctest.Test(t, func(t *testing.T) {
		stores := map[string]limiter.Store{}
		for _, name := range names {
			m := memstore.New(memstore.Options{})
			t.Cleanup(func() { _ = m.Close() })
			stores[name] = m
		}
		w := worldOver(t, 500*time.Millisecond, stores, &memoryLink{delay: func() time.Duration { return c.Delay }})
		limit := limiter.Limit{Algorithm: limiter.FixedWindow, Count: matrix.Limit, Window: c.Window.Milliseconds()}
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
		for i, part := range c.Parts() {
			if part == 0 {
				continue
			}
			every := time.Duration(float64(c.Window) / (c.Demand * matrix.Limit * part))
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
	cells := matrix.Cells(rules.SpanGlobalExact, 0)
	for i := range cells {
		if measure(t, &cells[i]); cells[i].Most > 0 || cells[i].Under > 0.1 {
			t.Errorf("%+v: over or under the limit", cells[i])
		}
	}
	matrix.Write(t, *writeCells, cells)
}
