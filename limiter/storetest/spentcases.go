package storetest

import (
	"context"
	"testing"
	"time"

	"sluice/limiter"
)

// spentByRegion checks, for an algorithm, that a store reports the units that each region has spent, until they no
// longer count.
func spentByRegion(t *testing.T, r *regions, a limiter.Algorithm) {
	l := limiter.Limit{Algorithm: a, Count: 10, Window: 10_000}
	if a.Bucketed() {
		l.Burst = 10
	}
	if a == limiter.SlidingWindowBuckets {
		l.Buckets = 10
	}
	r.use(l)
	read := func() (own, received int64, regions int) {
		store, ok := r.all[1].(limiter.SpentReader)
		if !ok {
			t.Fatalf("%T does not say what regions have spent", r.all[1])
		}
		s, err := store.Spent(context.Background(), r.ask.Key)
		if err != nil {
			t.Fatal(err)
		}
		for i := range s.Received {
			received += s.Received[i].Sums.Counting(r.ask.Limit, s.Now)
		}
		return s.Own.Counting(r.ask.Limit, s.Now), received, len(s.Received)
	}
	check := func(when string, own, received int64, regions int) {
		t.Helper()
		if o, h, n := read(); o != own || h != received || n != regions {
			t.Errorf("%s: %d units of its own and %d of %d regions, want %d and %d of %d", when, o, h, n, own, received, regions)
		}
	}
	check("nothing spent", 0, 0, 0)
	r.do(t, 0, limiter.OpTake, "", 3)
	r.do(t, 1, limiter.OpTake, "", 4)
	check("before the message", 4, 0, 0)
	r.apply(t, 1, r.only(t, 0, time.Hour))
	r.do(t, 1, limiter.OpRefund, "", 1)
	check("after the message and a refund", 3, 3, 1)
	r.clock.Set(1_795_000_005_000 + 30_000)
	if own, received, _ := read(); own != 0 || received != 0 {
		t.Errorf("three windows later %d units of its own and %d of others count, want none", own, received)
	}
}
