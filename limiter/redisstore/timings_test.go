package redisstore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// timed adds up what a store tells of its timings.
type timed struct {
	queued, called, negative atomic.Int64
}

func (t *timed) CalledAtOnce(took time.Duration, requests int) {
	t.add(&t.called, took, requests)
	t.add(&t.queued, 0, requests)
}

func (t *timed) Called(took time.Duration, requests int, waits []redisstore.Wait) {
	t.add(&t.called, took, requests)
	for _, w := range waits {
		t.add(&t.queued, w.Time, w.Requests)
	}
}

func (t *timed) add(to *atomic.Int64, d time.Duration, requests int) {
	to.Add(int64(requests))
	if d < 0 {
		t.negative.Add(1)
	}
}

// bound is a context with a bound, as the engine's.
type bound struct {
	context.Context
	of limiter.Bound
}

func (b bound) Bound() limiter.Bound { return b.of }

func (b bound) Deadline() (time.Time, bool) { return b.of.Deadline, true }

func TestStore_TellsOfEachRequestOnce(t *testing.T) {
	told := new(timed)
	s := open(t, client(t, testenv.SharedRedis(t).URL()), redisstore.Options{Timings: told})
	one := limiter.Request{Op: limiter.OpTake, Asks: []limiter.Ask{ask(entity(), 1, limits(month)[0])}}
	within := func(d time.Duration) context.Context {
		now := time.Now()
		return bound{t.Context(), limiter.Bound{Start: now, Deadline: now.Add(d), Canceled: t.Context().Done()}}
	}
	calls := make([]limiter.Call, 7)
	for i := range calls {
		calls[i].Request = one
	}
	s.DoAll(within(time.Minute), calls)
	for i := range calls {
		if calls[i].Err != nil {
			t.Fatal(calls[i].Err)
		}
	}
	var res limiter.Result
	for _, d := range []time.Duration{90 * time.Millisecond, time.Minute} { // by the caller itself, and by a dispatcher
		if err := s.Do(within(d), &one, &res); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil { // the last call is told of before
		t.Fatal(err)
	}
	if q, c, n := told.queued.Load(), told.called.Load(), told.negative.Load(); q != 9 || c != 9 || n != 0 {
		t.Errorf("queued %d, called %d, negative %d, want 9, 9, 0", q, c, n)
	}
}
