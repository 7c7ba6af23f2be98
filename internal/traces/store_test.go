package traces

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/internal/traces/collector"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/redisstore"
)

// takes is a request for one unit of each of some buckets.
func takes(keys ...string) limiter.Request {
	req := limiter.Request{Op: limiter.OpTake}
	for _, key := range keys {
		req.Asks = append(req.Asks, limiter.Ask{Key: limiter.Key(key), Weight: 1,
			Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1e6, Window: 3_600_000}})
	}
	return req
}

// spy says when a request is about to wait for its call.
type spy struct {
	redisstore.Tracer
	arrived chan struct{}
}

func (s spy) Traced(ctx context.Context) redisstore.Traced {
	defer func() { s.arrived <- struct{}{} }()
	return s.Tracer.Traced(ctx)
}

func TestCalls_EightChecksShareOneSpan(t *testing.T) {
	traces, c, _ := open(t)
	client, err := redisstore.NewClient(testenv.Redis(t).URL(), redisstore.ClientOptions{DialTimeout: 10 * time.Second,
		Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	watch := spy{traces.Calls(), make(chan struct{}, 9)}
	inner, err := redisstore.New(redisstore.Options{Client: client, MaxWait: time.Minute, Trace: watch})
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	store := traces.Store(inner)
	const checks = 8
	round := func(n int) {
		if err := client.Do(t.Context(), "CLIENT", "PAUSE", "60000", "WRITE").Err(); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { // a call with so many requests that no other begins beside it
			large := make([]limiter.Call, 100)
			for i := range large {
				large[i].Request = takes(fmt.Sprintf("{large}%d|fw", i))
			}
			store.DoAll(t.Context(), large)
		})
		<-watch.arrived
		for i := range checks {
			wg.Go(func() {
				ctx, done := traces.Begin(t.Context(), "", "POST", fmt.Sprintf("/%d", i))
				defer done(200)
				req, res := takes(fmt.Sprintf("{user:%d-%d}|fw", n, i)), limiter.Result{}
				if err := store.Do(ctx, &req, &res); err != nil || !res.Allowed {
					t.Error(err, res)
				}
			})
		}
		for range checks {
			<-watch.arrived
		}
		if err := client.Do(t.Context(), "CLIENT", "UNPAUSE").Err(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}
	// A check that has arrived is in the queue a moment later. If Redis was quicker, there is another round.
	for n := range 100 {
		round(n)
		for _, call := range flushed(t, traces, c)["redis script"] {
			if call.Number("sluice.requests") == checks {
				linked(t, call, flushed(t, traces, c)["store"])
				return
			}
		}
	}
	t.Error("no call has carried all checks")
}

// linked checks that a call and what it carried are linked, and that it is inside one of these.
func linked(t *testing.T, call collector.Span, questions []collector.Span) {
	t.Helper()
	links, inside := 0, 0
	for _, q := range questions {
		if call.In(q) {
			inside++
		}
		if !call.Links(q) {
			continue
		}
		links++
		if !q.Links(call) || !q.Has("sluice.queue_ms") {
			t.Errorf("the question %v lacks its call %x", q, call.GetSpanId())
		}
	}
	if links != len(call.GetLinks()) || links != 8 || inside != 1 {
		t.Errorf("%d links to %d questions, inside %d", len(call.GetLinks()), links, inside)
	}
}

func TestCalls_OfAClusterAreSpansToo(t *testing.T) {
	traces, c, _ := open(t)
	client, err := redisstore.NewClient(testenv.Cluster(t).URL(), redisstore.ClientOptions{DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	inner, err := redisstore.New(redisstore.Options{Client: client, MaxWait: time.Minute, Trace: traces.Calls()})
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	store := traces.Store(inner)
	ctx, done := traces.Begin(t.Context(), "", "POST", "/across")
	req, res := takes("{a}|fw", "{b}|fw", "{c}|fw"), limiter.Result{} // each in a slot of its own
	if err := store.Do(ctx, &req, &res); err != nil || !res.Allowed {
		t.Fatal(err, res)
	}
	done(200)
	spans := flushed(t, traces, c)
	requests := int64(0)
	for _, call := range spans["redis script"] {
		if requests += call.Number("sluice.requests"); !call.In(spans["store"][0]) {
			t.Errorf("the call %v is elsewhere", call)
		}
	}
	if requests < 3 || len(spans["store"]) != 1 {
		t.Errorf("spans %v", spans)
	}
}

// failing is a store that cannot decide.
type failing struct{ err error }

func (f failing) Do(context.Context, *limiter.Request, *limiter.Result) error { return f.err }

func (f failing) DoAll(_ context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = f.err
	}
}

func TestStore_FailuresHaveTheWordOfTheirCause(t *testing.T) {
	traces, c, _ := open(t)
	ctx, done := traces.Begin(t.Context(), "", "POST", "/x")
	refused := errors.New("dial tcp 192.0.2.1:6379: connection refused")
	store := traces.Store(failing{&limiter.StoreError{Cause: limiter.CauseConnection, Err: refused}})
	req, res := takes("k"), limiter.Result{}
	if err := store.Do(ctx, &req, &res); !errors.Is(err, refused) {
		t.Error(err)
	}
	store.DoAll(ctx, []limiter.Call{{Request: req}, {Request: req}})
	done(503)
	spans := flushed(t, traces, c)
	for _, s := range append(spans["store"], spans["POST /x"]...) {
		if s.GetStatus().GetMessage() != "connection" && s.GetStatus().GetMessage() != "Service Unavailable" {
			t.Errorf("status %v of %s", s.GetStatus(), s.GetName())
		}
	}
	if n := len(spans["store"]); n != 2 || spans["store"][1].Number("sluice.failed") != 2 {
		t.Errorf("%d spans of the store: %v", n, spans["store"])
	}
}

// The bound of a check is that of the store behind, which watches it by itself.
func TestStore_KeepsTheBound(t *testing.T) {
	traces, _, _ := open(t)
	ctx, done := traces.Begin(t.Context(), "", "POST", "/x")
	defer done(200)
	want := limiter.Bound{Start: time.Unix(1, 0), Deadline: time.Unix(2, 0)}
	seen := make(chan limiter.Bound, 2)
	memory := memstore.New(memstore.Options{})
	defer memory.Close()
	store := traces.Store(bounds{memory, seen})
	req, res := takes("k"), limiter.Result{}
	if err := store.Do(bound{ctx, want}, &req, &res); err != nil {
		t.Error(err)
	}
	store.DoAll(bound{ctx, want}, []limiter.Call{{Request: req}})
	if a, b := <-seen, <-seen; a != want || b != want {
		t.Errorf("the bounds are %v and %v", a, b)
	}
}

type bound struct {
	context.Context
	of limiter.Bound
}

func (b bound) Bound() limiter.Bound { return b.of }

// bounds is a store that tells of the bounds of its requests.
type bounds struct {
	*memstore.Store
	seen chan limiter.Bound
}

func (s bounds) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	s.tell(ctx)
	return s.Store.Do(ctx, req, res)
}

func (s bounds) DoAll(ctx context.Context, calls []limiter.Call) {
	s.tell(ctx)
	s.Store.DoAll(ctx, calls)
}

func (s bounds) tell(ctx context.Context) {
	var of limiter.Bound
	if b, ok := ctx.(limiter.Bounded); ok {
		of = b.Bound()
	}
	s.seen <- of
}
