package share

import (
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/limiter/memstore"
)

// defaultSeeds is the number of seeds that a test run simulates without the race detector, in some 15 seconds. Faults
// that others had shown were seen with seeds 224 and 231.
var defaultSeeds = 1000

// seeds is how many seeds a simulation tries.
func seeds(t *testing.T) uint64 {
	t.Helper()
	if s := os.Getenv("SLUICE_SIM_SEEDS"); s != "" {
		more, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return uint64(more) //nolint:gosec // a number of seeds
	}
	return uint64(defaultSeeds) //nolint:gosec // as above
}

// windows counts what all regions have admitted in a window, by the number that the clock of each gives it.
type windows struct{ units map[int64]int64 }

func (a *windows) admit(w *world, r *simRegion, n int64) {
	number := r.clock(w.now) / w.limit.Window
	a.units[number] += n
	if a.units[number] > w.limit.Count {
		w.t.Fatalf("%d of %d units admitted in window %d", a.units[number], w.limit.Count, number)
	}
}

// stretch counts what all regions have admitted in the length of a window until now. Windows of first_hit begin at
// other times in each region, so that it can be as much as two windows of one region have.
type stretch struct{ at, units []int64 }

func (a *stretch) admit(w *world, _ *simRegion, n int64) {
	a.at, a.units = append(a.at, w.now), append(a.units, n)
	for a.at[0] <= w.now-w.limit.Window {
		a.at, a.units = a.at[1:], a.units[1:]
	}
	sum := int64(0)
	for _, units := range a.units {
		sum += units
	}
	if sum >= 2*w.limit.Count {
		w.t.Fatalf("at %d %d units were admitted in the length of a window, the limit is %d", w.now, sum, w.limit.Count)
	}
}

// reference is one bucket in which all regions' units are counted. None of them is above the limit.
type reference struct {
	store *memstore.Store
	time  *atomic.Int64 // the store's clock; its sweeper reads it too
}

func (a *reference) admit(w *world, _ *simRegion, n int64) {
	var res limiter.Result
	req := limiter.Request{Op: limiter.OpCharge, Asks: []limiter.Ask{{Key: "{k}|7|x", Weight: n, Limit: w.limit}}}
	a.time.Store(w.now)
	if err := a.store.Do(w.t.Context(), &req, &res); err != nil {
		w.t.Fatal(err)
	}
	if !res.Allowed {
		w.t.Fatalf("at %d more than the limit was admitted", w.now)
	}
}

// The sum of what regions may spend, and of what they have admitted, is never above the limit, whatever goes wrong.
func TestSimulation_NeverOverTheLimit(t *testing.T) {
	for seed := range seeds(t) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			kinds := []limiter.Limit{
				{Algorithm: limiter.FixedWindow, Count: 100, Window: 40_000},
				{Algorithm: limiter.FixedWindow, Count: 5, Window: 2000},
				{Algorithm: limiter.SlidingWindowCounter, Count: 60, Window: 5000},
				{Algorithm: limiter.TokenBucket, Count: 50, Burst: 20, Window: 5000},
				{Algorithm: limiter.GCRA, Count: 40, Burst: 40, Window: 4000},
				{Algorithm: limiter.FixedWindow, Align: limiter.AlignFirstHit, Count: 30, Window: 10_000},
			}
			l := kinds[seed%uint64(len(kinds))]
			n := 2 + int(seed)%4 //nolint:gosec // small
			if seed%50 == 49 {
				n = 50
			}
			w := newWorld(t, seed, l, n, 2000)
			skewed := true
			switch {
			case w.r.IntN(3) == 0:
				w.steps = true
			case l.Align == limiter.AlignFirstHit:
				w.account = &stretch{}
			case l.Algorithm == limiter.FixedWindow:
				w.account = &windows{map[int64]int64{}}
			default:
				now := &atomic.Int64{}
				now.Store(w.now)
				one := memstore.New(memstore.Options{Clock: now.Load, Steady: true})
				t.Cleanup(func() { _ = one.Close() })
				w.account, skewed = &reference{one, now}, false
			}
			for _, r := range w.regions {
				r.cfg.Skew = 0
				if skewed {
					r.skew, r.cfg.Skew = w.r.Int64N(10_001)-5000, 10_000
				}
				r.demand = w.r.Float64() * 8
			}
			w.faults = true
			w.run(1500 / n)
		})
	}
}

// Where nothing goes wrong, the busy region gets what the others do not want, and nothing is left.
func TestSimulation_TheBusyRegionGetsTheRest(t *testing.T) {
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 300, Window: 10_000}
	w := newWorld(t, 1, l, 3, 5000)
	w.account = &windows{map[int64]int64{}}
	w.regions[1].demand = 60
	w.run(300)
	w.asks, w.served = 0, 0
	w.run(500)
	if most := w.limit.Count * 10; w.served < most*95/100 {
		t.Errorf("%d of %d units admitted", w.served, most)
	}
	w.regions[1].demand, w.regions[0].demand = 0, 60
	w.run(450)
	w.asks, w.served = 0, 0
	w.run(500)
	if most := w.limit.Count * 10; w.served < most*95/100 {
		t.Errorf("after the move, %d of %d units admitted", w.served, most)
	}
}

// Two minutes after demand is steady, those who are asked have nearly all of a limit, however long its window is.
func TestSimulation_UsedTwoMinutesAfterDemandIsSteady(t *testing.T) {
	for _, window := range []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour} {
		for split, c := range map[string]struct {
			asked []float64 // parts of the demand
			least int64     // percent
		}{"even": {[]float64{1, 1, 1}, 90}, "80/10/10": {[]float64{8, 1, 1}, 90}, "one region": {[]float64{0, 1, 0}, 95}} {
			l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 100, Window: window.Milliseconds()}
			w := newWorld(t, 1, l, 3, time.Minute.Milliseconds())
			for _, r := range w.regions {
				r.cfg.Valid = 3000
			}
			w.run(600) // nobody asks
			sum := 0.0
			for _, n := range c.asked {
				sum += n
			}
			for i, r := range w.regions {
				r.demand = 4 * float64(l.Count) / window.Seconds() * c.asked[i] / sum
			}
			w.run(600)
			usable := int64(0)
			for i, r := range w.regions {
				// A region with a tenth of four times the limit needs no more than that.
				usable += min(w.maySpend(r).Units(l.Count), int64(4*float64(l.Count)*c.asked[i]/sum))
			}
			t.Logf("window of %v, demand %s: %d %% of the limit is used", window, split, usable*100/l.Count)
			if usable*100 < c.least*l.Count {
				t.Errorf("window of %v, demand %s: %d of %d can be spent, want %d %%", window, split, usable, l.Count, c.least)
			}
		}
	}
}
