package redisstore_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

func TestStore_StormAdmitsExactlyTheLimit(t *testing.T) {
	url := testenv.SharedRedis(t).URL()
	stores := []*redisstore.Store{
		open(t, client(t, url), redisstore.Options{}),
		open(t, client(t, url), redisstore.Options{}),
	}
	for i, l := range limits(month) {
		if l.Algorithm == limiter.Concurrency {
			continue // see the storm with leases below
		}
		narrow, wide := l, l
		wide.Window = 10 * month
		wide.Count, wide.Burst = 100_000, 100_000*min(l.Burst, 1)
		name := entity()
		asks := []limiter.Ask{ask(name, i, wide), ask(name, i+100, narrow)}
		var passed atomic.Int64
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				for range 12 {
					var res limiter.Result
					if err := stores[g%2].Do(context.Background(), &limiter.Request{Asks: asks}, &res); err != nil {
						t.Error(err)
					}
					if res.Allowed {
						passed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if passed.Load() != 100 {
			t.Errorf("%s: %d passed of a limit of 100", l.Algorithm, passed.Load())
		}
		if d := do(t, stores[0], limiter.OpPeek, "", asks[0]).Limits[0]; d.Remaining != 100_000-100 {
			t.Errorf("%s: the wide limit was charged %d times", l.Algorithm, 100_000-d.Remaining)
		}
	}
}

func TestStore_StormOfLeasesHoldsExactlyTheLimit(t *testing.T) {
	url := testenv.SharedRedis(t).URL()
	stores := []*redisstore.Store{
		open(t, client(t, url), redisstore.Options{}),
		open(t, client(t, url), redisstore.Options{}),
	}
	a := ask(entity(), 1, limiter.Limit{Algorithm: limiter.Concurrency, Count: 5, Window: month})
	var held, most atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			id := string(rune('a' + g))
			for range 40 {
				var res limiter.Result
				if err := stores[g%2].Do(context.Background(), &limiter.Request{ID: id, Asks: []limiter.Ask{a}}, &res); err != nil {
					t.Error(err)
				}
				if !res.Allowed {
					continue
				}
				n := held.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				held.Add(-1)
				if err := stores[g%2].Do(context.Background(),
					&limiter.Request{Op: limiter.OpRelease, ID: id, Asks: []limiter.Ask{a}}, &res); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if most.Load() > 5 {
		t.Errorf("%d held a slot of 5 at once", most.Load())
	}
	if d := do(t, stores[0], limiter.OpPeek, "", a).Limits[0]; d.Remaining != 5 {
		t.Errorf("%d slots are still taken", 5-d.Remaining)
	}
}

func TestStore_UnknownScriptIsSentAtOnce(t *testing.T) {
	c := client(t, testenv.Redis(t).URL())
	s := open(t, c, redisstore.Options{})
	a := ask(entity(), 1, limits(month)[0])
	for i := range 20 {
		if err := c.ScriptFlush(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
		if d := take(t, s, "", a).Limits[0]; d.Remaining != int64(99-i) {
			t.Fatalf("remaining %d after %d takes", d.Remaining, i+1)
		}
	}
}

func TestStore_FrozenServerCostsADeadlineAndNoMore(t *testing.T) {
	srv := testenv.Redis(t)
	s := open(t, client(t, srv.URL()), redisstore.Options{MaxQueue: 8})
	a := ask(entity(), 1, limits(month)[0])
	take(t, s, "", a)
	srv.Pause()
	causes := make(chan *limiter.StoreError, 40)
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
			defer cancel()
			err := s.Do(ctx, &limiter.Request{Asks: []limiter.Ask{a}}, &limiter.Result{})
			var se *limiter.StoreError
			if !errors.As(err, &se) {
				t.Errorf("got %v", err)
				return
			}
			causes <- se
		})
	}
	wg.Wait()
	srv.Resume()
	close(causes)
	busy, maybe := 0, int64(0)
	for se := range causes {
		switch se.Cause {
		case limiter.CauseOverload: // nobody can know yet that the server is frozen
			busy++
		case limiter.CauseTimeout:
		default:
			t.Errorf("got cause %s: %v", se.Cause, se)
		}
		if se.Unknown {
			maybe++
		}
	}
	if busy == 0 {
		t.Error("a queue of 8 took 40 requests")
	}
	used := 99 - do(t, s, limiter.OpPeek, "", a).Limits[0].Remaining
	if used > maybe {
		t.Errorf("%d requests were applied, but only %d were said to be possible", used, maybe)
	}
}

func TestStore_CallerWhoLeavesIsAnsweredAtOnce(t *testing.T) {
	srv := testenv.Redis(t)
	s := open(t, client(t, srv.URL()), redisstore.Options{})
	a := ask(entity(), 1, limits(month)[0])
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := s.Do(ctx, &limiter.Request{Asks: []limiter.Ask{a}}, &limiter.Result{})
	wantCause(t, err, limiter.CauseCanceled, false)

	srv.Pause()
	defer srv.Resume()
	ctx, cancel = context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Do(ctx, &limiter.Request{Asks: []limiter.Ask{a}}, &limiter.Result{}) }()
	cancel()
	if cause := limiter.CauseOf(<-done); cause != limiter.CauseCanceled {
		t.Errorf("got %s", cause)
	}
}

func TestStore_CloseAnswersWhatItAcceptedAndRefusesTheRest(t *testing.T) {
	s := open(t, client(t, testenv.SharedRedis(t).URL()), redisstore.Options{})
	a := ask(entity(), 1, limits(month)[0])
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			err := s.Do(context.Background(), &limiter.Request{Asks: []limiter.Ask{a}}, &limiter.Result{})
			if err != nil && limiter.CauseOf(err) != limiter.CauseClosed {
				t.Error(err)
			}
		})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	err := s.Do(context.Background(), &limiter.Request{Asks: []limiter.Ask{a}}, &limiter.Result{})
	wantCause(t, err, limiter.CauseClosed, false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStore_AbsentServerIsAConnectionErrorUntilItIsBack(t *testing.T) {
	srv := testenv.Redis(t)
	s := open(t, client(t, srv.URL()), redisstore.Options{})
	a := ask(entity(), 1, limits(month)[0])
	take(t, s, "", a)
	srv.Kill()
	var last error
	for range 5 {
		last = s.Do(context.Background(), &limiter.Request{Asks: []limiter.Ask{a}}, &limiter.Result{})
		if limiter.CauseOf(last) != limiter.CauseConnection {
			t.Fatalf("got %v", last)
		}
	}
	wantCause(t, last, limiter.CauseConnection, false) // refused: nothing was sent
	srv.Restart()
	eventually(t, "it decides again", func() bool {
		return s.Do(context.Background(), &limiter.Request{Asks: []limiter.Ask{a}}, &limiter.Result{}) == nil
	})
}

func TestStore_RefusalsOfTheServerAreNamedAndNotApplied(t *testing.T) {
	a := ask(entity(), 1, limits(month)[0])
	tests := []struct {
		name  string
		args  []string
		setup func(t *testing.T, c redis.UniversalClient, srv *testenv.RedisServer)
		cause limiter.Cause
	}{
		{"out of memory", []string{"--maxmemory", "1mb", "--maxmemory-policy", "noeviction"}, nil, limiter.CauseMemory},
		{"replica", nil, func(t *testing.T, c redis.UniversalClient, srv *testenv.RedisServer) {
			host, port, _ := net.SplitHostPort(testenv.Redis(t).Addr)
			if err := c.SlaveOf(context.Background(), host, port).Err(); err != nil {
				t.Fatal(err)
			}
		}, limiter.CauseReadOnly},
		{"password", []string{"--requirepass", "secret"}, nil, limiter.CauseAuth},
		{"permission", nil, func(t *testing.T, c redis.UniversalClient, srv *testenv.RedisServer) {
			if err := c.Do(context.Background(), "ACL", "SETUSER", "default", "-eval", "-evalsha").Err(); err != nil {
				t.Fatal(err)
			}
		}, limiter.CauseAuth},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv := testenv.Redis(t, tt.args...)
			c := client(t, srv.URL())
			s := open(t, c, redisstore.Options{})
			if tt.setup != nil {
				tt.setup(t, c, srv)
			}
			err := s.Do(context.Background(), &limiter.Request{Asks: []limiter.Ask{a}}, &limiter.Result{})
			wantCause(t, err, tt.cause, false)
		})
	}
}

func TestStore_EndlessScriptElsewhereIsBusy(t *testing.T) {
	srv := testenv.Redis(t, "--busy-reply-threshold", "1")
	c := client(t, srv.URL())
	s := open(t, c, redisstore.Options{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Eval(context.Background(), "while true do end", nil).Err()
	}()
	var err error
	for deadline := time.Now().Add(5 * time.Second); err == nil && time.Now().Before(deadline); {
		err = s.Do(context.Background(), &limiter.Request{Asks: []limiter.Ask{ask(entity(), 1, limits(month)[0])}},
			&limiter.Result{})
	}
	wantCause(t, err, limiter.CauseBusy, false)
	_ = c.ScriptKill(context.Background()).Err()
	<-ended
}

func TestStore_DoAllKeepsOrderAndIsolatesBadRequests(t *testing.T) {
	s := open(t, client(t, testenv.SharedRedis(t).URL()), redisstore.Options{MaxBatch: 7})
	a := ask(entity(), 1, limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1000, Window: month})
	calls := make([]limiter.Call, 50)
	for i := range calls {
		calls[i].Request.Asks = []limiter.Ask{a}
	}
	calls[20].Request.Asks = nil
	s.DoAll(context.Background(), calls)
	used := int64(0)
	for i := range calls {
		if i == 20 {
			if !errors.Is(calls[i].Err, limiter.ErrInvalid) {
				t.Errorf("got %v", calls[i].Err)
			}
			continue
		}
		used++
		if calls[i].Err != nil || calls[i].Result.Limits[0].Remaining != 1000-used {
			t.Fatalf("call %d: %+v, %v", i, calls[i].Result, calls[i].Err)
		}
	}
}
