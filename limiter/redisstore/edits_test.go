package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
)

// edits draws requests for buckets whose algorithm changes now and then, from nodes of which some do not know it yet.
type edits struct {
	traffic
	was []*limiter.Limit // before the last edit of the algorithm
}

func newEdits(t *rapid.T) *edits {
	e := &edits{traffic: *newTraffic(t)}
	e.was = make([]*limiter.Limit, len(e.limits))
	for i := range e.limits {
		e.family[i] = rapid.SampledFrom(families[:len(families)-1]).Draw(t, "family that counts")
		e.limits[i] = e.limit(t, e.family[i])
	}
	return e
}

// edit changes the algorithm of a bucket.
func (e *edits) edit(t *rapid.T, i int) {
	was := e.limits[i]
	f := rapid.SampledFrom(families[:len(families)-1]).Draw(t, "edited family")
	if is := e.limit(t, f); limiter.Movable(was, is) {
		e.family[i], e.limits[i], e.was[i] = f, is, &was
	}
}

// asked draws a request.
func (e *edits) asked(t *rapid.T) limiter.Request {
	req := limiter.Request{Op: rapid.SampledFrom([]limiter.Op{
		limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpPeek, limiter.OpPeek, limiter.OpCharge,
		limiter.OpCharge, limiter.OpRefund, limiter.OpRefund, limiter.OpReset, limiter.OpSettle, limiter.OpSettle,
	}).Draw(t, "op")}
	if rapid.Bool().Draw(t, "named") || req.Op == limiter.OpSettle {
		req.ID = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
	}
	for i := range e.limits {
		if rapid.IntRange(0, 4).Draw(t, "edit") == 0 {
			e.edit(t, i)
		}
		a := limiter.Ask{Limit: e.limits[i], Former: e.was[i], Weight: e.weight(t, e.limits[i])}
		if a.Former != nil && rapid.IntRange(0, 3).Draw(t, "does not know the edit") == 0 {
			a.Limit, a.Former = *a.Former, nil
		}
		a.Key = limiter.Key(fmt.Sprintf("{%s}|%d|%s", e.entity, i, a.Limit.Algorithm.Kind()))
		a.Look = rapid.IntRange(0, 5).Draw(t, "look") == 0
		req.Asks = append(req.Asks, a)
	}
	return req
}

// What moves after an edit of the algorithm is the same in Redis and in memory, whatever else happens, and a look says
// what a decision then finds.
func TestModel_TheScriptMovesAsMemoryDoes(t *testing.T) {
	clock := storetest.NewClock(0)
	s := open(t, client(t, testenv.SharedRedis(t).URL()), redisstore.Options{Clock: clock.Now})
	memory := memstore.New(memstore.Options{Clock: clock.Now})
	t.Cleanup(func() { memory.Close() })
	rapid.Check(t, func(t *rapid.T) {
		e := newEdits(t)
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			e.step(t)
			clock.Set(e.now)
			var calls []limiter.Call
			for range rapid.IntRange(1, 8).Draw(t, "requests") {
				req := e.asked(t)
				if err := req.Check(); err != nil {
					t.Fatal(err)
				}
				calls = append(calls, limiter.Call{Request: req})
				if req.Op == limiter.OpPeek {
					calls = append(calls, limiter.Call{Request: takeNothing(&req)})
				}
			}
			s.DoAll(context.Background(), calls)
			var looked limiter.Result
			for i := range calls {
				c := &calls[i]
				if c.Err != nil {
					t.Fatalf("%+v at %d: %v", c.Request, e.now, c.Err)
				}
				var want limiter.Result
				if err := memory.Do(context.Background(), &c.Request, &want); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, c.Result); diff != "" {
					t.Fatalf("%s %q %+v at %d (-memory +Redis):\n%s", c.Request.Op, c.Request.ID, c.Request.Asks, e.now, diff)
				}
				if want.Replayed {
					// In memory a repeat moves nothing.
					nothing := takeNothing(&c.Request)
					if err := memory.Do(context.Background(), &nothing, &want); err != nil {
						t.Fatal(err)
					}
				}
				if i > 0 && calls[i-1].Request.Op == limiter.OpPeek {
					agreeOnFigures(t, &c.Request, &looked, &c.Result)
				}
				looked = c.Result
			}
		}
	})
}

// takeNothing is a take of no units of the limits of a request.
func takeNothing(req *limiter.Request) limiter.Request {
	nothing := limiter.Request{Asks: slices.Clone(req.Asks)}
	for i := range nothing.Asks {
		nothing.Asks[i].Weight = 0
	}
	return nothing
}

// agreeOnFigures compares a look with a take of nothing at the same instant.
func agreeOnFigures(t *rapid.T, req *limiter.Request, looked, taken *limiter.Result) {
	for i := range req.Asks {
		l, d := &looked.Limits[i], &taken.Limits[i]
		if l.Remaining != d.Remaining || l.Used != d.Used {
			t.Fatalf("%+v: a look says %d remaining and %d used, a take finds %d and %d", req.Asks[i], l.Remaining, l.Used,
				d.Remaining, d.Used)
		}
	}
}
