package storetest

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
)

// regionsAgree checks that regions agree once everything has arrived, whatever was spent, given back and reset anywhere
// before the others received it, and in whatever order it arrives. The total is not defined then: units that are spent
// between a reset and its arrival are dropped.
func regionsAgree(t *testing.T, h RegionHarness, a limiter.Algorithm) {
	clock := NewClock(clockMin)
	var stores []limiter.Exporter
	for range mostRegions {
		stores = append(stores, h.New(t, clock.Now))
	}
	rapid.Check(t, func(rt *rapid.T) {
		clock.Set(genOrigin.Draw(rt, "origin"))
		limit := drawLimit(rt, a)
		limit.Align, limit.Anchor = limiter.AlignCalendar, 0 // first_hit windows begin where the first unit is seen
		n := rapid.IntRange(2, mostRegions).Draw(rt, "regions")
		r := &regions{clock: clock, all: stores[:n], told: make([][]told, n), ask: newEntity().asks(0, limit)[0]}
		ids := make([][]string, n) // of charges that can be given back, by region
		for i := range rapid.IntRange(1, 25).Draw(rt, "steps") {
			at := rapid.IntRange(0, n-1).Draw(rt, "region")
			switch op := rapid.IntRange(0, 9).Draw(rt, "operation"); {
			case op == 0:
				r.do(rt, at, limiter.OpReset, "", 0)
			case op <= 2 && len(ids[at]) > 0:
				r.do(rt, at, limiter.OpRefund, ids[at][0], 0)
				ids[at] = ids[at][1:]
			default:
				id := fmt.Sprint(i)
				if r.do(rt, at, limiter.OpTake, id, min(drawWeight(rt, limit), limit.Capacity())).Allowed {
					ids[at] = append(ids[at], id)
				}
			}
			if rapid.Bool().Draw(rt, "some arrive") {
				r.some(rt)
			}
			if d := drawStep(rt, limit, 0, false); d > 0 {
				step(clock, d)
			}
		}
		r.flush(rt)
		r.flush(rt) // units that a reset elsewhere has cleared
		want := r.do(rt, 0, limiter.OpPeek, "", 1).Limits[0]
		for at := range r.all {
			if got := r.do(rt, at, limiter.OpPeek, "", 1).Limits[0]; got != want {
				rt.Fatalf("%+v: region %d of %d answers\n%+v, region 0 answers\n%+v", limit, at, n, got, want)
			}
		}
		r.confirmAll(rt)
	})
}
