//go:build !race

package updates

import (
	"testing"
	"time"

	"sluice/limiter"
	"sluice/limiter/memstore"
)

// What regions admit in some windows is what one region would admit, as far as a guard can see to that: at most 1 %
// less, and no more than without a guard. A bucket so shallow that it drains within an interval is left to the bound.
func TestSeeds_NothingIsUnder(t *testing.T) {
	for _, limit := range []limiter.Limit{
		{Algorithm: limiter.FixedWindow, Count: 1000, Window: 10_000},
		{Algorithm: limiter.SlidingWindowCounter, Count: 1000, Window: 10_000},
		{Algorithm: limiter.SlidingWindowCounter, Count: 10, Window: 10_000},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 1000, Window: 10_000, Buckets: 10},
		{Algorithm: limiter.TokenBucket, Count: 1000, Window: 10_000, Burst: 50},
	} {
		for _, demand := range []float64{1.2, 4} {
			for _, shares := range [][]float64{{1, 1, 1}, {8, 1, 1}, {1, 0, 0}} {
				p := plan{regions: 3, interval: 200, delay: 100, demand: demand, shares: shares, length: 30_000, limit: limit,
					leaseOfAnExport: time.Second}
				if limit.Burst > 0 {
					p.demand *= float64(limit.Count) / float64(limit.Burst)
				}
				open, want := admitted(t, p)
				p.guard = limiter.GuardOpen
				held, _ := admitted(t, p)
				t.Logf("%s of %d, demand %.1f of %v: one region %d, open %d, held %d", limit.Algorithm, limit.Count, demand, shares,
					want, open, held)
				if least := want - want/100 - 1; held < least || held > open {
					t.Errorf("%s of %d, demand %.1f of %v: %d admitted, want %d to %d", limit.Algorithm, limit.Count, demand, shares,
						held, least, open)
				}
			}
		}
	}
}

// admitted is what regions admit, and what one region would.
func admitted(t *testing.T, p plan) (regions, one int64) {
	t.Helper()
	w := newModel(p, 1)
	defer w.close()
	w.ideal = memstore.New(memstore.Options{Clock: w.clock.Load, Steady: true})
	defer func() { _ = w.ideal.Close() }()
	if err := w.run(w.now + w.length); err != nil {
		t.Fatal(err)
	}
	return w.admitted, w.idealAdmitted
}

// The figures of the issue: three regions, a delay of 100 ms, news every 200 ms, ten seconds.
func TestSeeds_LessIsAdmittedBeyondTheLimit(t *testing.T) {
	for _, demand := range []float64{1.2, 2, 4, 10, 100} {
		var over [3]float64
		for _, mode := range []limiter.GuardMode{limiter.GuardOff, limiter.GuardOpen, limiter.GuardShare} {
			const runs = 4
			for seed := range uint64(runs) {
				w := newModel(plan{
					regions: 3, interval: 200, delay: 100, demand: demand, even: true, guard: mode, length: 10_000,
					limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1000, Window: 600_000}, leaseOfAnExport: time.Second,
				}, seed)
				if err := w.run(w.now + w.length); err != nil {
					t.Fatal(err)
				}
				w.close()
				if w.most < 1000 {
					t.Errorf("demand %.1f, guard %v: %d of 1000 admitted", demand, mode, w.most)
				}
				over[mode] += float64(w.most-1000) / 10 / runs
			}
		}
		bound := float64(Bound(int64(demand*100), 100, 200, 3)) / 10
		t.Logf("demand %4.1f: %4.1f %% over, with a guard %4.1f %%, cold share %4.1f %%, bound %4.1f %%", demand, over[0],
			over[1], over[2], bound)
		if over[1] > over[0] || over[2] > over[0] || over[0] > bound+0.3 {
			t.Errorf("demand %.1f: %.1f %% over, with a guard %.1f and %.1f %%, bound %.1f %%", demand, over[0], over[1],
				over[2], bound)
		}
	}
}
