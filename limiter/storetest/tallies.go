package storetest

import (
	"testing"

	"sluice/limiter"
)

// Tallies checks limiter.Tally, which counts for a pool: it never denies, and its count stops at the limit.
func Tallies(t *testing.T, h Harness) {
	tests := map[string]func(*recorder){
		"CountsWhatACounterReads":       tallyCounts,
		"StopsAtItsLimit":               tallyStops,
		"GivesBackWhatACounterRecorded": tallyRefunds,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			clock := NewClock(1_795_000_000_000)
			test(&recorder{T: t, clock: clock, store: h.New(t, clock.Now), who: newEntity()})
		})
	}
}

var (
	tally = limiter.Limit{Algorithm: limiter.Tally, Count: limiter.MaxExact / 86_400_000, Window: 86_400_000}
	aPool = limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 100, Window: 86_400_000}
)

func tallyCounts(r *recorder) {
	r.is("allowed", r.take("", 60, tally).Allowed, true)
	r.is("remaining", r.remaining(aPool), []int64{40})
	r.is("a take above what the counter has left", r.take("", 41, aPool).Allowed, false)
	r.is("the tally", r.take("", 41, tally).Allowed, true)
	r.is("remaining", r.remaining(aPool), []int64{0})
	r.is("remaining of the tally", r.remaining(tally), []int64{tally.Count - 101})
}

func tallyStops(r *recorder) {
	for _, w := range []int64{limiter.MaxExact, 1 << 20, tally.Count, tally.Count + 1, 1} {
		for _, op := range []limiter.Op{limiter.OpCharge, limiter.OpTake, limiter.OpPeek} {
			got := do(r.T, r.store, op, "", r.who.asks(w, tally)...).Limits[0]
			r.is(op.String(), []int64{got.RetryAfter, got.Remaining}, []int64{0, 0})
			r.is(op.String()+" allowed", got.Allowed, true)
		}
	}
	r.is("a take of nothing", r.take("", 0, tally).Allowed, true)
	// A day later all of it fades as a full count does.
	r.clock.Set((r.clock.Now()/tally.Window+1)*tally.Window + tally.Window/2)
	r.is("half a day into the next window", r.remaining(tally), []int64{tally.Count - (tally.Count+1)/2})
	r.is("a pool's limit", r.take("", 1, aPool).Allowed, false)
	r.clock.Advance(tally.Window / 2)
	r.is("two windows later", r.remaining(tally, aPool), []int64{tally.Count, 100})
}

func tallyRefunds(r *recorder) {
	do(r.T, r.store, limiter.OpCharge, "a", r.who.asks(30, tally)...)
	r.take("b", 20, aPool)
	r.is("remaining", r.remaining(aPool), []int64{50})
	r.is("charged as a tally", r.refund("a", aPool), []int64{30})
	r.is("taken as a counter", r.refund("b", tally), []int64{20})
	do(r.T, r.store, limiter.OpTake, "c", r.who.asks(30, tally)...)
	r.is("settled", r.settle("c", 10, tally).Limits[0].Refunded, int64(20))
	r.is("remaining", r.remaining(aPool), []int64{90})
}
