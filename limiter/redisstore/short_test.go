package redisstore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// leastTime is a hook that keeps the least time that a server has for a script call.
type leastTime struct{ least, calls atomic.Int64 }

func (*leastTime) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*leastTime) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *leastTime) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			now := time.Now()
			until, _ := ctx.Deadline()
			s.least.Store(min(s.least.Load(), int64(until.Sub(now))))
			s.calls.Add(1)
		}
		return next(ctx, cmd)
	}
}

// shortly is a limiter.Bounded of a caller whose own deadline is earlier than the store timeout.
type shortly struct{ *promptness }

func (s shortly) Bound() limiter.Bound {
	return limiter.Bound{Start: s.start, Deadline: s.until, Turn: s.until, Hard: s.until, Canceled: s.leave}
}

// A caller of 1 ms in a loop, with a Redis that needs 3 ms to answer, must not open the breaker for everyone.
func TestStore_AShortDeadlineIsNotTheServers(t *testing.T) {
	c, seen := client(t, testenv.SharedRedis(t).URL()), &leastTime{}
	c.AddHook(seen)
	s := open(t, c, redisstore.Options{ProbeLimit: 25 * time.Millisecond})
	a := ask(entity(), 1, shop)
	take(t, s, "", a)
	seen.least.Store(int64(time.Hour))
	seen.calls.Store(0)
	eventually(t, "calls of callers of 1 ms", func() bool {
		_ = s.Do(shortly{within(time.Millisecond)}, &limiter.Request{Asks: []limiter.Ask{a}}, &limiter.Result{})
		return seen.calls.Load() >= 3
	})
	if least := time.Duration(seen.least.Load()); least < 20*time.Millisecond {
		t.Errorf("the server had %s", least)
	}
}
