package updates

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"sluice/limiter"
)

// defaultSeeds is the number of seeds that a test run simulates without the race detector.
var defaultSeeds = 200

// draw draws the plan of a seed.
func draw(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // a simulation
	count := []int64{30, 200, 1000}[r.IntN(3)]
	p := plan{
		regions: 2 + r.IntN(5), interval: 100 + 100*r.Int64N(4), delay: 20 + r.Int64N(140),
		demand: []float64{0.5, 1.2, 2, 4, 10}[r.IntN(5)], even: r.IntN(2) == 0,
		guard: limiter.GuardMode(r.IntN(3)), length: 10_000, //nolint:gosec // 0 to 2
		leaseOfAnExport: time.Duration(1+r.IntN(5)) * time.Second,
	}
	if r.IntN(20) == 0 {
		p.regions, p.length, p.leaseOfAnExport = 7+r.IntN(44), 3000, time.Second
		p.interval = max(p.interval, 200)
	}
	switch r.IntN(6) {
	case 0:
		p.limit = limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: count, Window: 600_000}
	case 1:
		p.limit = limiter.Limit{Algorithm: limiter.SlidingWindowBuckets, Count: count, Window: 600_000, Buckets: 10}
	case 2: // drains a unit an hour
		p.limit = limiter.Limit{Algorithm: limiter.LeakyBucket, Count: 1, Window: 3_600_000, Burst: count}
	case 3:
		p.limit = limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: count, Window: 600_000}
	case 4:
		p.limit = limiter.Limit{Algorithm: limiter.GCRA, Count: 1, Window: 3_600_000, Burst: count}
	default:
		p.limit = limiter.Limit{Algorithm: limiter.FixedWindow, Count: count, Window: 600_000}
	}
	p.skew = r.IntN(2) == 0 // unless windows end meanwhile: regions would disagree about which
	switch seed % 4 {
	case 1: // everything goes wrong
		p.jitter, p.loss, p.faults = r.Int64N(500), 0.3*r.Float64(), true
		p.charges = r.IntN(2) == 0
	case 2: // late messages, and windows that end meanwhile
		p.jitter, p.loss = r.Int64N(500), 0.3*r.Float64()
		if decay := p.limit.Algorithm.Traits().Decay; decay == limiter.DecayAtOnce || decay == limiter.DecaySliding {
			p.limit.Window, p.charges, p.skew = []int64{1000, 7000}[r.IntN(2)], true, false
		}
	}
	if a := p.limit.Algorithm; a == limiter.SlidingWindowLog || a == limiter.GCRA {
		p.charges = false // a log that holds more than its limit joins entries, which then cannot be given back, and a GCRA
		// never holds more than a burst
	} else if p.faults && !p.charges {
		p.loses = true
	}
	return p
}

// lossless reports whether the plan keeps the conditions of the published bound.
func (p *plan) lossless() bool { return p.loss == 0 && !p.faults }

// bound is the most that may be admitted beyond the limit. Every region may have one request under way more than its
// rate says, and with an uneven load the others may have nearly all of it.
func (p *plan) bound(nodes []*modelNode) int64 {
	total, least := int64(0), int64(1)<<60
	for _, n := range nodes {
		rate := int64(1e6)/n.every + 1
		total, least = total+rate, min(least, rate)
	}
	slack := int64(p.regions)
	if p.even {
		return Bound(total, p.delay+p.jitter, p.interval, p.regions) + slack
	}
	return (total-least)*(p.delay+p.jitter+p.interval)/1000 + slack
}

// life runs one seed.
func life(seed uint64) (w *model, err error) {
	p := draw(seed)
	w = newModel(p, seed)
	defer w.close()
	if err := w.run(w.now + p.length); err != nil {
		return w, err
	}
	over := w.most - p.limit.Capacity()
	offered := p.demand * float64(p.limit.Capacity()) * float64(p.length) / 10_000
	// docs/spans.md promises that at most 1 % stays unused in ten seconds.
	if p.length == 10_000 && p.lossless() && w.sameWindow() && offered > 1.5*float64(p.limit.Capacity()) &&
		-over > p.limit.Capacity()/100 && p.even && p.limit.Capacity() >= int64(4*p.regions) {
		return w, fmt.Errorf("%d units under the limit though %.0f were asked for", -over, offered)
	}
	if err := w.settle(); err != nil {
		return w, err
	}
	return w, w.agree()
}

func number(t *testing.T, name string) (uint64, bool) {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n, true
}

// After every step, what was applied only grows, a repetition changes nothing, and every unit counts once. After
// quiescence every region has what one region would have; of a store that was lost, all but what it had not exported.
// Where no message is lost, no region lacks at any step what
// others spent longer ago than the delay and an interval, and what is over the limit is within the published bound.
func TestSeeds_EveryRegionEndsAsOneWithinTheBound(t *testing.T) {
	first, seeds := uint64(0), uint64(defaultSeeds)
	if n, ok := number(t, "SLUICE_SIM_SEEDS"); ok {
		seeds = n
	}
	if n, ok := number(t, "SLUICE_SIM_SEED"); ok {
		first, seeds = n, 1
	}
	var applied, repeated, dropped, over, most, losses, regained int
	for seed := first; seed < first+seeds; seed++ {
		w, err := life(seed)
		if err != nil {
			t.Fatalf("seed %d: %v\n%+v", seed, err, w.plan)
		}
		applied, repeated, dropped = applied+w.applied, repeated+w.repeated, dropped+w.dropped
		losses, regained = losses+w.losses, regained+w.regained
		most = max(most, w.regions)
		if w.most > w.limit.Capacity() {
			over++
		}
	}
	t.Logf("%d seeds of up to %d regions: %d applied, %d repeated, %d lost, over the limit in %d, %d stores lost, "+
		"%d times something restored", seeds, most, applied, repeated, dropped, over, losses, regained)
	least := min(losses, regained, applied, repeated, dropped, over)
	if seeds > 100 && (least == 0 || most < 20) {
		t.Error("the faults do not bite")
	}
}
