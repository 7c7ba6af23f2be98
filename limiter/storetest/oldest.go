package storetest

import (
	"testing"

	"sluice/limiter"
)

// Oldest checks the release of the oldest slot: OpRelease without an ID.
func Oldest(t *testing.T, h Harness) {
	tests := map[string]func(*recorder){
		"SlotsEndInTheOrderOfTheirStart":      oldestFirst,
		"SlotsOfOneMillisecondEndByID":        oldestByID,
		"ASlotOfManyUnitsIsOneSlot":           oldestWeighs,
		"ASlotThatExpiredIsNotReleased":       oldestAlive,
		"ARenewedSlotIsTheNewest":             oldestRenewed,
		"WithoutASlotNothingIsGivenBack":      oldestOfNone,
		"EachBucketReleasesItsOwn":            oldestOfEach,
		"ASlotThatWasReleasedIsNotRenewed":    oldestEnds,
		"ASlotTakenBesideALimitIsReleasedToo": oldestBesideLimit,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			clock := NewClock(1_795_000_000_000)
			test(&recorder{T: t, clock: clock, store: h.New(t, clock.Now), who: newEntity()})
		})
	}
}

var nineAtOnce = limiter.Limit{Algorithm: limiter.Concurrency, Count: 9, Window: 60_000}

// releaseOldest releases the oldest slot of each limit and returns the units.
func (r *recorder) releaseOldest(limits ...limiter.Limit) []int64 {
	r.Helper()
	var out []int64
	res := do(r.T, r.store, limiter.OpRelease, "", r.who.asks(1, limits...)...)
	r.is("allowed", res.Allowed, true)
	for _, d := range res.Limits {
		out = append(out, d.Refunded)
	}
	return out
}

// holds returns whether the slots of ids are held, and renews the held ones.
func (r *recorder) holds(l limiter.Limit, ids ...string) []bool {
	r.Helper()
	var out []bool
	for _, id := range ids {
		out = append(out, do(r.T, r.store, limiter.OpRenew, id, r.who.asks(0, l)...).Allowed)
	}
	return out
}

func oldestFirst(r *recorder) {
	for _, id := range []string{"c", "a", "b"} {
		r.take(id, 1, nineAtOnce)
		r.clock.Advance(1)
	}
	r.is("units", r.releaseOldest(nineAtOnce), []int64{1})
	r.is("units", r.releaseOldest(nineAtOnce), []int64{1})
	r.is("a, b and c", r.holds(nineAtOnce, "a", "b", "c"), []bool{false, true, false})
}

func oldestByID(r *recorder) {
	for _, id := range []string{"c", "a", "b"} {
		r.take(id, 1, nineAtOnce)
	}
	r.releaseOldest(nineAtOnce)
	r.is("a, b and c", r.holds(nineAtOnce, "a", "b", "c"), []bool{false, true, true})
}

func oldestWeighs(r *recorder) {
	r.take("a", 3, nineAtOnce)
	r.clock.Advance(1)
	r.take("b", 2, nineAtOnce)
	r.is("units", r.releaseOldest(nineAtOnce), []int64{3})
	r.is("remaining", r.remaining(nineAtOnce), []int64{7})
	r.is("units", r.releaseOldest(nineAtOnce), []int64{2})
	r.is("remaining", r.remaining(nineAtOnce), []int64{9})
}

func oldestAlive(r *recorder) {
	r.take("a", 4, nineAtOnce)
	r.clock.Advance(1)
	r.take("b", 2, nineAtOnce)
	r.clock.Advance(nineAtOnce.Window - 1) // a has expired
	r.is("units", r.releaseOldest(nineAtOnce), []int64{2})
	r.is("units", r.releaseOldest(nineAtOnce), []int64{0})
	r.is("remaining", r.remaining(nineAtOnce), []int64{9})
}

func oldestRenewed(r *recorder) {
	r.take("a", 1, nineAtOnce)
	r.clock.Advance(1)
	r.take("b", 1, nineAtOnce)
	r.clock.Advance(1)
	r.holds(nineAtOnce, "a")
	r.releaseOldest(nineAtOnce)
	r.is("a and b", r.holds(nineAtOnce, "a", "b"), []bool{true, false})
}

func oldestOfNone(r *recorder) {
	r.is("units", r.releaseOldest(nineAtOnce), []int64{0})
	r.is("remaining", r.remaining(nineAtOnce), []int64{9})
}

func oldestOfEach(r *recorder) {
	r.take("a", 1, nineAtOnce, twoAtOnce)
	r.clock.Advance(1)
	r.take("b", 2, nineAtOnce)
	r.is("units", r.releaseOldest(nineAtOnce, twoAtOnce), []int64{1, 1})
	r.is("units", r.releaseOldest(nineAtOnce, twoAtOnce), []int64{2, 0})
	r.is("remaining", r.remaining(nineAtOnce, twoAtOnce), []int64{9, 2})
}

func oldestEnds(r *recorder) {
	r.take("a", 1, nineAtOnce)
	r.releaseOldest(nineAtOnce)
	r.is("held", r.holds(nineAtOnce, "a"), []bool{false})
	r.take("a", 2, nineAtOnce)
	r.is("remaining", r.remaining(nineAtOnce), []int64{7})
}

func oldestBesideLimit(r *recorder) {
	r.take("a", 2, threeADay, twoAtOnce)
	release := r.who.asks(0, threeADay, twoAtOnce)[1:]
	r.is("units", do(r.T, r.store, limiter.OpRelease, "", release...).Limits[0].Refunded, int64(2))
	r.is("remaining", r.remaining(threeADay, twoAtOnce), []int64{1, 2})
}
