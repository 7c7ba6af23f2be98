package memstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/storetest"
)

// expired is a limiter.Bounded whose store timeout has passed. caller is the caller's own context.
type expired struct {
	context.Context
	caller context.Context //nolint:containedctx // as the engine's does
	asked  int             // how often anybody asked for the store timeout
}

// newExpired returns an expired context of a caller.
func newExpired(caller context.Context) (*expired, context.CancelFunc) {
	past, cancel := context.WithDeadline(caller, time.Unix(1, 0))
	return &expired{Context: past, caller: caller}, cancel
}

func (e *expired) Bound() limiter.Bound {
	return limiter.Bound{Deadline: time.Unix(1, 0), Canceled: e.caller.Done()}
}

func (e *expired) Err() error {
	if err := e.caller.Err(); err != nil {
		return err
	}
	e.asked++
	return e.Context.Err()
}

func TestStore_DecidesToItsEndAfterTheStoreTimeout(t *testing.T) {
	const limit, most = 300, 1000
	s := newStore(t, memstore.Options{Clock: storetest.NewClock(noon).Now})
	caller, leave := context.WithCancel(t.Context())
	defer leave()
	ctx, cancel := newExpired(caller)
	defer cancel()
	fixed := limiter.Limit{Algorithm: limiter.FixedWindow, Count: limit, Window: 1000}
	asks := []limiter.Ask{{Key: "{k}|1|fw", Limit: fixed, Weight: 1}}
	calls := make([]limiter.Call, most)
	for i := range calls {
		calls[i].Request.Asks = asks
	}
	s.DoAll(ctx, calls[1:])
	calls[0].Err = s.Do(ctx, &calls[0].Request, &calls[0].Result)
	allowed := 0
	for i := range calls {
		switch {
		case calls[i].Err != nil:
			t.Fatalf("request %d: %v", i, calls[i].Err)
		case calls[i].Result.Allowed:
			allowed++
		}
	}
	if allowed != limit {
		t.Errorf("%d of %d passed, the limit is %d", allowed, most, limit)
	}
	if ctx.asked > 0 {
		t.Errorf("the store timeout, which needs a clock, was asked for %d times", ctx.asked)
	}
}

func TestStore_CallerWhoLeavesEndsABatchBetweenTwoRequests(t *testing.T) {
	const decided = 3
	clock, readings := storetest.NewClock(noon), 0
	caller, leave := context.WithCancel(t.Context())
	defer leave()
	s := newStore(t, memstore.Options{Clock: func() int64 {
		if readings++; readings == decided { // the caller leaves while the third request is decided
			leave()
		}
		return clock.Now()
	}})
	ctx, cancel := newExpired(caller)
	defer cancel()
	asks := []limiter.Ask{{Key: limiter.DirectKey("k", fiveAnHour), Limit: fiveAnHour, Weight: 1}}
	calls := make([]limiter.Call, decided+2)
	for i := range calls {
		calls[i].Request.Asks = asks
	}
	s.DoAll(ctx, calls)
	for i := range calls {
		var se *limiter.StoreError
		switch {
		case i < decided && calls[i].Err != nil:
			t.Errorf("request %d, before its caller left: %v", i, calls[i].Err)
		case i >= decided && (!errors.As(calls[i].Err, &se) || se.Cause != limiter.CauseCanceled || se.Unknown):
			t.Errorf("request %d, after its caller left: %v", i, calls[i].Err)
		}
	}
	peek := &limiter.Request{Op: limiter.OpPeek, Asks: asks}
	if got := mustDo(t, s, peek).Limits[0].Remaining; got != fiveAnHour.Count-decided {
		t.Errorf("%d remain, want %d", got, fiveAnHour.Count-decided)
	}
}
