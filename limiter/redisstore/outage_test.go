package redisstore_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// eventually polls until ok, for at most 20 s.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-limit.C:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

// try takes one unit within d.
func try(s *redisstore.Store, d time.Duration, asks ...limiter.Ask) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return s.Do(ctx, &limiter.Request{Asks: asks}, &limiter.Result{})
}

func TestBreakers_OpenOnADeadServerAndCloseByThemselves(t *testing.T) {
	srv := testenv.Redis(t)
	var opened, closed atomic.Int64
	s := open(t, client(t, srv.URL()), redisstore.Options{OnBreaker: func(c redisstore.BreakerChange) {
		switch {
		case c.To == redisstore.BreakerOpen && c.Cause == limiter.CauseConnection && c.Err != nil && c.Node == srv.Addr:
			opened.Add(1)
		case c.To == redisstore.BreakerClosed:
			closed.Add(1)
		}
	}})
	a := ask(entity(), 1, limits(month)[0])
	take(t, s, "", a)
	for range 3 { // more failed attempts than the client's pool has room for
		srv.Kill()
		eventually(t, "the breaker refuses", func() bool {
			err := try(s, time.Second, a)
			if limiter.CauseOf(err) == limiter.CauseBreaker {
				wantCause(t, err, limiter.CauseBreaker, false)
				return true
			}
			return false
		})
		before := s.Breakers()[0].Probes
		eventually(t, "two probes in vain", func() bool { return s.Breakers()[0].Probes >= before+2 })
		srv.Restart()
		back := time.Now()
		eventually(t, "the breaker closes", func() bool {
			_ = try(s, time.Second, a)
			return s.Breakers()[0].State == redisstore.BreakerClosed
		})
		t.Logf("normal %s after the server was back", time.Since(back).Round(time.Millisecond))
	}
	if opened.Load() < 3 || closed.Load() < 3 || s.Breakers()[0].Opened != opened.Load() {
		t.Errorf("opened %d times, closed %d times, %+v", opened.Load(), closed.Load(), s.Breakers())
	}
}

func TestBreakers_OpenOnAFrozenServer(t *testing.T) {
	srv := testenv.Redis(t)
	s := open(t, client(t, srv.URL()), redisstore.Options{})
	a := ask(entity(), 1, limits(month)[0])
	take(t, s, "", a)
	srv.Pause()
	eventually(t, "the breaker refuses", func() bool {
		return limiter.CauseOf(try(s, 20*time.Millisecond, a)) == limiter.CauseBreaker
	})
	if b := s.Breakers()[0]; b.Cause != limiter.CauseTimeout {
		t.Errorf("opened because of %s", b.Cause)
	}
	srv.Resume()
	eventually(t, "it decides again", func() bool { return try(s, time.Second, a) == nil })
}

func TestBreakers_CloseOnlyWhenTheScriptMayWrite(t *testing.T) {
	srv := testenv.Redis(t)
	c := client(t, srv.URL())
	s := open(t, c, redisstore.Options{})
	ctx, a := context.Background(), ask(entity(), 1, limits(month)[0])
	take(t, s, "", a)
	host, port, err := net.SplitHostPort(srv.Addr)
	if err != nil {
		t.Fatal(err)
	}
	refusals := []struct {
		cause     limiter.Cause
		set, undo []any
	}{
		{limiter.CauseMemory, []any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		{limiter.CauseAuth, []any{"ACL", "SETUSER", "default", "-evalsha", "-eval"},
			[]any{"ACL", "SETUSER", "default", "+evalsha", "+eval"}},
		{limiter.CauseReadOnly, []any{"REPLICAOF", host, port}, []any{"REPLICAOF", "NO", "ONE"}},
	}
	for _, r := range refusals {
		if err := c.Do(ctx, r.set...).Err(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the breaker opens", func() bool {
			_ = try(s, time.Second, a)
			b := s.Breakers()[0]
			return b.State == redisstore.BreakerOpen && b.Probes > 0
		})
		if b := s.Breakers()[0]; b.Cause != r.cause {
			t.Errorf("opened because of %s, want %s", b.Cause, r.cause)
		}
		if err := c.Do(ctx, r.undo...).Err(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the breaker closes", func() bool {
			_ = try(s, time.Second, a)
			return s.Breakers()[0].State == redisstore.BreakerClosed
		})
	}
}

func TestBreakers_IgnoreForeignValuesAndCallersWhoLeave(t *testing.T) {
	c := client(t, testenv.Redis(t).URL())
	s := open(t, c, redisstore.Options{Prefix: "x:"})
	a := ask(entity(), 1, limits(month)[0])
	if err := c.SAdd(context.Background(), "x:"+string(a.Key), "foreign").Err(); err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(context.Background())
	leave()
	for range 50 {
		wantCause(t, try(s, time.Second, a), limiter.CauseWrongType, false)
		_ = s.Do(gone, &limiter.Request{Asks: []limiter.Ask{a}}, &limiter.Result{})
	}
	if b := s.Breakers()[0]; b.State != redisstore.BreakerClosed || b.Opened != 0 {
		t.Errorf("got %+v", b)
	}
}

func TestStore_ExhaustedPoolIsNoFailureOfTheServer(t *testing.T) {
	srv := testenv.Redis(t)
	c, err := redisstore.NewClient(srv.URL(), redisstore.ClientOptions{PoolSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s := open(t, c, redisstore.Options{})
	a := ask(entity(), 1, limits(month)[0])
	take(t, s, "", a)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _ = c.BLPop(ctx, 10*time.Second, "nothing").Err() })
	}
	watch := client(t, srv.URL())
	eventually(t, "both connections are taken", func() bool {
		n, _ := field(watch.Info(context.Background(), "clients").Val(), "blocked_clients")
		return n == 2
	})
	for range 20 { // none gets a connection, and none is sent
		err := s.Do(within(25*time.Millisecond), &limiter.Request{Asks: []limiter.Ask{a}}, &limiter.Result{})
		wantCause(t, err, limiter.CauseTimeout, false)
	}
	if b := s.Breakers()[0]; b.Opened != 0 {
		t.Errorf("our own pool opened the breaker: %+v", b)
	}
	cancel()
	if err := watch.LPush(context.Background(), "nothing", 1, 2).Err(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	eventually(t, "it decides again", func() bool { return try(s, time.Second, a) == nil })
	if d := do(t, s, limiter.OpPeek, "", a).Limits[0]; d.Remaining != 98 {
		t.Errorf("%d remain, want 98: what had no connection was charged", d.Remaining)
	}
}

// flushes is how often the scripts are flushed, each time after checksBetween more checks.
const flushes, checksBetween = 60, 50

func TestStore_ScriptFlushesUnderLoadFailNothing(t *testing.T) {
	srv := testenv.Redis(t)
	s, c := open(t, client(t, srv.URL()), redisstore.Options{}), client(t, srv.URL())
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var done atomic.Int64
	due := make(chan struct{}, 1)
	a := ask(entity(), 1, limiter.Limit{Algorithm: limiter.FixedWindow, Count: limiter.MaxExact, Window: month})
	for range 16 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := try(s, 10*time.Second, a); err != nil {
					t.Errorf("a check failed: %v", err)
				}
				if done.Add(1)%checksBetween == 0 {
					select {
					case due <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	for range flushes {
		<-due
		if err := c.ScriptFlush(context.Background()).Err(); err != nil {
			t.Error(err)
		}
	}
	cancel()
	wg.Wait()
	if used := limiter.MaxExact - do(t, s, limiter.OpPeek, "", a).Limits[0].Remaining; used != done.Load() {
		t.Errorf("%d checks, %d charged", done.Load(), used)
	}
	t.Logf("%d checks over %d flushes, none failed", done.Load(), flushes)
}

func TestStore_RecoveryKeepsConnectionsBounded(t *testing.T) {
	srv := testenv.Redis(t)
	s := open(t, client(t, srv.URL()), redisstore.Options{})
	a := ask(entity(), 1, limiter.Limit{Algorithm: limiter.FixedWindow, Count: limiter.MaxExact, Window: month})
	ctx, cancel := context.WithCancel(context.Background())
	var decided atomic.Int64
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if try(s, 25*time.Millisecond, a) == nil {
					decided.Add(1)
				} else {
					pause := time.NewTimer(time.Millisecond) // as a client between two requests
					<-pause.C
				}
			}
		})
	}
	eventually(t, "it decides", func() bool { return decided.Load() > 1000 })
	srv.Kill()
	eventually(t, "the breaker opens", func() bool { return s.Breakers()[0].State == redisstore.BreakerOpen })
	before := decided.Load()
	srv.Restart()
	eventually(t, "it decides again", func() bool { return decided.Load() > before+1000 })
	watch := client(t, srv.URL())
	n, info := field(watch.Info(context.Background(), "clients").Val(), "connected_clients")
	if n < 1 || n > 8+1 {
		t.Errorf("%d connections:\n%s", n, info)
	}
	total, _ := field(watch.Info(context.Background(), "stats").Val(), "total_connections_received")
	cancel()
	wg.Wait()
	t.Logf("200 clients: %d connections, %d ever made since the restart", n, total)
}

// field is one number of INFO.
func field(info, name string) (int, string) {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(v))
			return n, info
		}
	}
	return -1, info
}
