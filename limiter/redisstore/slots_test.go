package redisstore_test

import (
	"context"
	"fmt"
	"testing"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
)

// TestScript_SlotsThatAServerEvictsLeaveNoUnits deletes the sorted set of a bucket as an eviction does. Its
// hash with the weights and sums stays.
func TestScript_SlotsThatAServerEvictsLeaveNoUnits(t *testing.T) {
	t.Parallel()
	ctx, prefix := context.Background(), entity()+":"
	c := client(t, testenv.SharedRedis(t).URL())
	clock := storetest.NewClock(1_790_000_000_000)
	s := open(t, c, redisstore.Options{Prefix: prefix, Clock: clock.Now})
	a := ask("slots", 1, limiter.Limit{Algorithm: limiter.Concurrency, Count: 5000, Window: 600_000})
	fill := func(weight int64) limiter.Decision {
		a.Weight = weight
		var res limiter.Result
		for i := range 300 {
			res = do(t, s, limiter.OpTake, fmt.Sprint("slot-", weight, "-", i), a)
			clock.Advance(1)
		}
		return res.Limits[0]
	}
	if got := fill(3).Remaining; got != 5000-900 {
		t.Fatalf("%d units remain", got)
	}
	deleted := 0
	for _, key := range c.Keys(ctx, prefix+"*").Val() {
		if c.Type(ctx, key).Val() == "zset" {
			deleted += int(c.Del(ctx, key).Val())
		}
	}
	if deleted != 1 {
		t.Fatalf("%d buckets were deleted", deleted)
	}
	if got := fill(2).Remaining; got != 5000-600 {
		t.Errorf("%d units remain after 300 slots of two", got)
	}
	if got := fill(1).Remaining; got != 5000-900 {
		t.Errorf("%d units remain after 300 slots of one besides", got)
	}
	limit := a.Limit
	a.Limit.Count, a.Weight = 600, 2 // 151 slots of two must expire
	if d := do(t, s, limiter.OpTake, "more", a).Limits[0]; d.Allowed || d.RetryAfter != 600_000-450 {
		t.Errorf("a full bucket answers %+v", d)
	}
	a.Limit = limit
	for i := range 300 {
		do(t, s, limiter.OpRelease, fmt.Sprint("slot-2-", i), a)
	}
	if got := do(t, s, limiter.OpPeek, "", a).Limits[0].Remaining; got != 5000-300 {
		t.Errorf("%d units remain after their release", got)
	}
}
