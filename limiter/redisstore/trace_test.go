package redisstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// recorder is a Tracer that records the requests whose context has a name.
type recorder struct {
	mu    sync.Mutex
	calls []redisstore.TracedCall
}

type nameKey struct{}

func named(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, nameKey{}, name)
}

func (*recorder) Traced(ctx context.Context) redisstore.Traced { return ctx.Value(nameKey{}) }

func (r *recorder) Called(c *redisstore.TracedCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, *c)
}

func TestTracer_HearsOfTheCallsOfItsRequests(t *testing.T) {
	server := testenv.Redis(t)
	rec := &recorder{}
	c := client(t, server.URL())
	s := open(t, c, redisstore.Options{Trace: rec})
	within := func(ctx context.Context, d time.Duration) context.Context {
		now := time.Now()
		return bound{ctx, limiter.Bound{Start: now, Deadline: now.Add(d), Canceled: ctx.Done()}}
	}
	one := limiter.Request{Op: limiter.OpTake, Asks: []limiter.Ask{ask(entity(), 1, limits(month)[0])}}
	var res limiter.Result
	do := func(ctx context.Context) {
		t.Helper()
		if err := s.Do(ctx, &one, &res); err != nil {
			t.Fatal(err)
		}
	}
	do(within(named(t.Context(), "alone"), 90*time.Millisecond)) // by the caller itself
	do(within(named(t.Context(), "queued"), time.Minute))        // by a dispatcher
	do(named(t.Context(), "unbounded"))
	do(t.Context())
	calls := make([]limiter.Call, 150)
	for i := range calls {
		calls[i].Request = one
	}
	s.DoAll(within(named(t.Context(), "batch"), time.Minute), calls)
	do(t.Context())

	// Something else lives at the key: the request fails, and nothing else.
	if err := c.Do(t.Context(), "FLUSHALL").Err(); err != nil {
		t.Fatal(err)
	}
	do(t.Context())
	keys, err := c.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if err := c.Del(t.Context(), keys[0]).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.LPush(t.Context(), keys[0], "x").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Do(within(named(t.Context(), "failed"), time.Minute), &one, &res); limiter.CauseOf(err) !=
		limiter.CauseWrongType {
		t.Fatal(err)
	}

	var got []string
	for i, call := range rec.calls {
		want := []int{1, 1, 1, 100, 50, 1}[min(i, 5)]
		if call.Requests != want || len(call.Carried) != 1 || call.Ended.Before(call.Began) || call.Carried[0].Wait < 0 {
			t.Errorf("call %d: %+v", i, call)
			continue
		}
		name, _ := call.Carried[0].Traced.(string)
		if got = append(got, name); (call.Failed == 1 && call.Cause == limiter.CauseWrongType) != (name == "failed") {
			t.Errorf("call of %s: %+v", name, call)
		}
	}
	want := []string{"alone", "queued", "unbounded", "batch", "batch", "failed"}
	if len(got) != len(want) {
		t.Fatalf("calls of %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("calls of %q, want %q", got, want)
		}
	}
}
