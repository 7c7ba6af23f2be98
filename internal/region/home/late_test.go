package home

import (
	"context"
	"sync"
	"testing"
	"time"

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
