package home

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/limiter/memstore"
)

// gate lets calls through once it is open.
type gate struct {
	limiter.Store

	came, open chan struct{}
}

func (s *gate) DoAll(ctx context.Context, calls []limiter.Call) {
	select {
	case s.came <- struct{}{}:
	default: // it is open
	}
	<-s.open
	s.Store.DoAll(ctx, calls)
}

// The third of three regions denies after the store of the first was told to close. What the second gave is given back.
func TestStore_CloseWaitsForWhatRequestsUnderWayGiveBack(t *testing.T) {
	g := &gate{came: make(chan struct{}), open: make(chan struct{})}
	stores := map[string]limiter.Store{}
	for _, name := range names {
		m := memstore.New(memstore.Options{})
		t.Cleanup(func() { _ = m.Close() })
		stores[name] = m
	}
	g.Store, stores["us"] = stores["us"], g
	w := world(t, 10*time.Second, stores)
	eu := w["eu"]
	request := limiter.Request{Asks: []limiter.Ask{ask(at("eu", 0), 10, 1), ask(at("asia", 0), 10, 1), ask(inUS, 0, 1)}}
	answered, closed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(answered)
		var res limiter.Result
		if err := eu.Do(t.Context(), &request, &res); err != nil || res.Allowed {
			t.Errorf("%v, %+v", err, res)
		}
	}()
	<-g.came
	if got := left(t, w, request.Asks[1]); got != 9 {
		t.Errorf("%d left of 10 in asia, want the request to have taken 1 there", got)
	}
	go func() {
		defer close(closed)
		_ = eu.Close(t.Context())
	}()
	eventually(t, "Close waits, or does not", func() bool {
		select {
		case <-closed:
			return true
		default:
		}
		waits := !eu.closing.TryRLock()
		if !waits {
			eu.closing.RUnlock()
		}
		return waits
	})
	close(g.open)
	<-answered
	<-closed
	for _, a := range request.Asks[:2] {
		if got := left(t, w, a); got != 10 {
			t.Errorf("%s: %d left of 10", a.Key, got)
		}
	}
	var se *limiter.StoreError
	err := eu.Do(t.Context(), &request, &limiter.Result{})
	if !errors.As(err, &se) || se.Cause != limiter.CauseClosed || se.Unknown {
		t.Errorf("after Close: %v", err)
	}
}
