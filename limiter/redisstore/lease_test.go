package redisstore_test

import (
	"context"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

func TestStore_ResetLeavesTheLeasesOfOthersInTheSameCallAlone(t *testing.T) {
	s := open(t, client(t, testenv.SharedRedis(t).URL()), redisstore.Options{})
	name := entity()
	heavy := ask(name, 1, limiter.Limit{Algorithm: limiter.Concurrency, Count: 12, Window: month})
	heavy.Weight = 4
	calls := []limiter.Call{
		{Request: limiter.Request{ID: "a", Asks: []limiter.Ask{heavy}}},
		{Request: limiter.Request{Op: limiter.OpReset, Asks: []limiter.Ask{ask(name, 2, limits(month)[0])}}},
		{Request: limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{heavy}}},
	}
	s.DoAll(context.Background(), calls)
	if got := calls[2].Result.Limits[0].Remaining; got != 8 {
		t.Errorf("%d of 12 are free beside a lease of 4", got)
	}
}

func TestStore_CompanionOfALeaseExpiresWithIt(t *testing.T) {
	c := client(t, testenv.SharedRedis(t).URL())
	s := open(t, c, redisstore.Options{})
	a := ask(entity(), 1, limiter.Limit{Algorithm: limiter.Concurrency, Count: 5, Window: minute})
	a.Weight = 2
	for _, op := range []limiter.Op{limiter.OpTake, limiter.OpRenew} {
		do(t, s, op, "a", a)
		for _, k := range []string{"sl:" + string(a.Key), "sl:" + string(a.Key) + ":w"} {
			if ttl := c.PTTL(context.Background(), k).Val(); ttl < time.Minute || ttl > 2*time.Minute {
				t.Errorf("after %s %s lives %v", op, k, ttl)
			}
		}
	}
}

func TestStore_ForeignCompanionFailsTheLease(t *testing.T) {
	c := client(t, testenv.SharedRedis(t).URL())
	s := open(t, c, redisstore.Options{})
	a := ask(entity(), 1, limiter.Limit{Algorithm: limiter.Concurrency, Count: 5, Window: month})
	c.Set(context.Background(), "sl:"+string(a.Key)+":w", "x", 0)
	err := s.Do(context.Background(), &limiter.Request{ID: "a", Asks: []limiter.Ask{a}}, &limiter.Result{})
	wantCause(t, err, limiter.CauseWrongType, false)
	if c.Exists(context.Background(), "sl:"+string(a.Key)).Val() != 0 {
		t.Error("a lease was written all the same")
	}
}
