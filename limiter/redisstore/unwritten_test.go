package redisstore_test

import (
	"context"
	"errors"
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

// The caller leaves while its calls look for a connection. They find none, and are not sent again.
func TestCluster_CallerWhoLeavesBeforeItsCallsAreWritten(t *testing.T) {
	cluster := testenv.SharedCluster(t)
	c := client(t, cluster.URL())
	asked, release := make(chan struct{}, 8), make(chan struct{})
	pool := &fullPool{hold: func(context.Context) { asked <- struct{}{}; <-release }}
	cc, ok := c.(*redis.ClusterClient)
	if !ok {
		t.Fatalf("the client is a %T", c)
	}
	cc.OnNewNode(func(node *redis.Client) { node.AddHook(pool) })
	s := open(t, c, redisstore.Options{})
	one := entityOn(t, cluster, cluster.Nodes[0])
	narrow := ask(one, 1, limits(month)[0])
	banned := limiter.Ask{Key: limiter.BanKey(narrow.Key), Limit: limiter.BanLimit(2, month, month, 1, month)}
	wide := ask(entityOn(t, cluster, cluster.Nodes[1]), 1, shop)
	take(t, s, "", narrow, banned, wide)
	pool.calls.Store(2)
	p := within(time.Minute)
	left := make(chan error)
	go func() {
		left <- s.Do(p, &limiter.Request{Asks: []limiter.Ask{narrow, banned, wide}}, &limiter.Result{})
	}()
	<-asked
	<-asked
	close(p.leave)
	var se *limiter.StoreError
	if err := <-left; !errors.As(err, &se) || se.Cause != limiter.CauseCanceled {
		t.Errorf("got %v", err)
	}
	close(release)
	until(t, "nothing to be under way", func() bool { return s.Stats().GiveBacksPending == 0 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, client(t, cluster.URL()), redisstore.Options{})
	if n, w := used(t, again, narrow), used(t, again, wide); n != 1 || w != 1 {
		t.Errorf("the limits hold %d and %d, want 1", n, w)
	}
}
