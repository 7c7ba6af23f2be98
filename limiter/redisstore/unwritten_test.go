package redisstore_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// fullPool is a hook that fails script calls as a client does whose connections are all in use.
type fullPool struct {
	calls atomic.Int64          // so many fail
	hold  func(context.Context) // before each fails; nil: at once
}

func (p *fullPool) refuses(ctx context.Context, cmds ...redis.Cmder) bool {
	script := false
	for _, cmd := range cmds {
		script = script || strings.HasPrefix(cmd.Name(), "eval")
	}
	if !script || p.calls.Add(-1) < 0 {
		return false
	}
	if p.hold != nil {
		p.hold(ctx)
	}
	for _, cmd := range cmds {
		cmd.SetErr(redis.ErrPoolTimeout)
	}
	return true
}

func (*fullPool) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *fullPool) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if p.refuses(ctx, cmd) {
			return redis.ErrPoolTimeout
		}
		return next(ctx, cmd)
	}
}

func (p *fullPool) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if p.refuses(ctx, cmds...) {
			return redis.ErrPoolTimeout
		}
		return next(ctx, cmds)
	}
}

func TestStore_SendsAgainWhatFoundNoConnection(t *testing.T) {
	c, pool := client(t, testenv.SharedRedis(t).URL()), &fullPool{}
	c.AddHook(pool)
	s := open(t, c, redisstore.Options{})
	a := ask(entity(), 1, shop)
	take(t, s, "", a)
	for i, d := range []time.Duration{50 * time.Millisecond, time.Minute} { // the caller makes the call, or the dispatcher
		pool.calls.Store(1)
		var res limiter.Result
		p := within(time.Minute)
		p.until = p.start.Add(d)
		if err := s.Do(p, &limiter.Request{Asks: []limiter.Ask{a}}, &res); err != nil || !res.Allowed {
			t.Errorf("%s: got %v, %+v", d, err, res)
		}
		if got := used(t, s, a); got != int64(i+2) {
			t.Errorf("%s: the limit holds %d", d, got)
		}
	}
}
