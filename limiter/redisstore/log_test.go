package redisstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
)

// TestScript_LogBeyondExactNumbersAgrees walks the log through the one state
// whose total no double can hold, which only charges reach, and back.
func TestScript_LogBeyondExactNumbersAgrees(t *testing.T) {
	l := limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 10, Window: 1000}
	charge := func(id string, w int64) limiter.Request {
		a := ask("log", 1, l)
		a.Weight = w
		return limiter.Request{Op: limiter.OpCharge, ID: id, Asks: []limiter.Ask{a}}
	}
	as := func(op limiter.Op, id string, w int64) limiter.Request {
		r := charge(id, w)
		r.Op = op
		return r
	}
	const huge = limiter.MaxExact
	cases := map[string][]limiter.Request{
		"inner entry given back whole": {
			charge("a", 5), charge("b", huge), charge("c", huge), charge("d", 3), as(limiter.OpPeek, "", 1),
			as(limiter.OpRefund, "b", 0), as(limiter.OpPeek, "", 1), as(limiter.OpRefund, "c", 0), as(limiter.OpPeek, "", 1),
			as(limiter.OpTake, "", 2),
		},
		"newest given back in part": {
			charge("a", huge), charge("b", huge), charge("c", 4), as(limiter.OpRefund, "", 2), as(limiter.OpPeek, "", 1),
			as(limiter.OpRefund, "", 3), as(limiter.OpPeek, "", 1), as(limiter.OpRefund, "", huge), as(limiter.OpPeek, "", 1),
		},
		"oldest first": {
			charge("a", huge), charge("b", huge), charge("c", 4), as(limiter.OpRefund, "a", 0), as(limiter.OpRefund, "b", 0),
			as(limiter.OpTake, "", 6), as(limiter.OpTake, "", 1),
		},
	}
	for name, reqs := range cases {
		for _, step := range []int64{1, 300, 400} {
			clock, m := storetest.NewClock(1_760_000_000_000), newModel()
			s := open(t, client(t, testenv.SharedRedis(t).URL()), redisstore.Options{Clock: clock.Now, Prefix: entity()})
			for i := range reqs {
				var got limiter.Result
				if err := s.Do(context.Background(), &reqs[i], &got); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(m.do(&reqs[i], clock.Now()), got); diff != "" {
					t.Errorf("%s, %d ms apart, request %d (-want +got):\n%s", name, step, i, diff)
				}
				clock.Advance(step)
			}
		}
	}
}

func TestModel_ARequestReadsABoundedPartOfALog(t *testing.T) {
	t.Parallel()
	counted(t, storetest.LongLogs)
	counted(t, storetest.CrowdedLogs)
}

func TestModel_ARequestReadsABoundedPartOfSlots(t *testing.T) {
	t.Parallel()
	counted(t, storetest.LongSlots)
}

// counted runs a test that counts what the script reads.
func counted(t *testing.T, test func(*testing.T, storetest.Harness, func() int64)) {
	t.Helper()
	c, counter := client(t, testenv.SharedRedis(t).URL()), entity()+":read"
	h := storetest.Harness{New: func(t *testing.T, clock func() int64) limiter.Store {
		s, err := redisstore.NewCounting(redisstore.Options{Client: c, Clock: clock}, counter)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}}
	test(t, h, func() int64 {
		n, err := c.Get(context.Background(), counter).Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		return n
	})
	if n := c.Get(context.Background(), counter).Val(); n == "" {
		t.Error("nothing was counted")
	}
}
