package home

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/memstore"
)

// late carries takes out only when it is let go, and answers before, as a store does whose server has not had the call
// yet when the caller leaves. Everything else it does at once.
type late struct {
	limiter.Store

	release chan struct{}
	came    sync.WaitGroup
}

func (s *late) DoAll(ctx context.Context, calls []limiter.Call) {
	if calls[0].Request.Op != limiter.OpTake {
		s.Store.DoAll(ctx, calls)
		return
	}
	again := make([]limiter.Call, len(calls))
	for i := range calls {
		again[i].Request = calls[i].Request
	}
	s.came.Go(func() {
		<-s.release
		s.Store.DoAll(context.WithoutCancel(ctx), again)
	})
	<-ctx.Done()
	for i := range calls {
		calls[i].Err = &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: true, Err: ctx.Err()}
	}
}

// A take in this region that is still on its way when its caller leaves is given back, although there was nothing to
// give back at first.
func TestStore_ATakeOfThisRegionThatIsLateIsGivenBack(t *testing.T) {
	m, other := memstore.New(memstore.Options{}), memstore.New(memstore.Options{})
	defer func() { _, _ = m.Close(), other.Close() }()
	l := &late{Store: m, release: make(chan struct{})}
	w := world(t, 100*time.Millisecond, map[string]limiter.Store{"eu": l, "us": other})
	here := ask("", 10, 1)
	for i := 0; ; i++ {
		if here.Key = keyOf(i); Of(here.Key, []string{"eu", "us"}) == "eu" {
			break
		}
	}
	var res limiter.Result
	err := w["eu"].Do(t.Context(), &limiter.Request{Asks: []limiter.Ask{here, ask(inUS, 10, 1)}}, &res)
	t.Logf("%v, %+v", err, w["eu"].Stats())
	close(l.release)
	l.came.Wait()
	eventually(t, "it is given back", func() bool { return left(t, w, here) == 10 })
}

// Callers that leave after 1 to 5 ms strand nothing.
func TestStore_CallersThatLeaveStrandNothing(t *testing.T) {
	stores := map[string]limiter.Store{}
	for _, name := range []string{"eu", "us"} {
		stores[name] = onRedis(t, testenv.Redis(t), nil)
	}
	w := world(t, 2*time.Second, stores)
	here := ask("", 10_000_000, 1)
	for i := 0; ; i++ {
		if here.Key = keyOf(i); Of(here.Key, []string{"eu", "us"}) == "eu" {
			break
		}
	}
	there := ask(inUS, 10_000_000, 1)
	var allowed, failed atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(6 * time.Second)
	for g := range 48 {
		wg.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(500+(g*131+n*977)%4500)*time.Microsecond)
				req := limiter.Request{Asks: []limiter.Ask{here, there}}
				if g%2 == 0 {
					req.ID, req.Unrepeated = fmt.Sprintf("%d/%d", g, n), g%4 == 0
				}
				var res limiter.Result
				if err := w["eu"].Do(ctx, &req, &res); err != nil {
					failed.Add(1)
				} else if res.Allowed {
					allowed.Add(1)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	until := time.Now().Add(40 * time.Second)
	for w["eu"].Stats().Pending > 0 && time.Now().Before(until) {
		time.Sleep(50 * time.Millisecond)
	}
	h, o := 10_000_000-left(t, w, here), 10_000_000-left(t, w, there)
	t.Logf("%d allowed, %d failed, %+v; %d used here, %d there", allowed.Load(), failed.Load(), w["eu"].Stats(), h, o)
	if lost := w["eu"].Stats().Lost; lost == 0 && (h != allowed.Load() || o != allowed.Load()) {
		t.Errorf("%d used here and %d there, %d were allowed", h, o, allowed.Load())
	}
}
