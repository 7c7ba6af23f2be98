//go:build !race

package redisstore_test

import (
	"context"
	"testing"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

func TestStoreDo_AllocationsOfALoneRequestAreBounded(t *testing.T) {
	s := open(t, client(t, testenv.SharedRedis(t).URL()), redisstore.Options{})
	req := limiter.Request{Asks: []limiter.Ask{ask(entity(), 1, limits(month)[1])}}
	var res limiter.Result
	got := testing.AllocsPerRun(500, func() {
		if err := s.Do(context.Background(), &req, &res); err != nil {
			t.Fatal(err)
		}
	})
	// Of these the key is the request's own; the others are the script call's,
	// which many requests share under load.
	if got > lone {
		t.Errorf("%v allocations, want at most %d", got, lone)
	}
}

const lone = 25

func TestStoreDoAll_AllocationsOfABatchAreBounded(t *testing.T) {
	s := open(t, client(t, testenv.SharedRedis(t).URL()), redisstore.Options{})
	calls := make([]limiter.Call, 100)
	for i := range calls {
		calls[i].Request.Asks = []limiter.Ask{ask(entity(), i, limits(month)[1])}
	}
	got := testing.AllocsPerRun(100, func() {
		s.DoAll(context.Background(), calls)
		for i := range calls {
			if calls[i].Err != nil {
				t.Fatal(calls[i].Err)
			}
		}
	})
	// Two a request: its key, and that key as an argument of the script call.
	if most := 2.0*float64(len(calls)) + 2*lone; got > most {
		t.Errorf("%v allocations, want at most %v", got, most)
	}
}

func TestStoreDo_TracesAllocateNothingUnlessRecorded(t *testing.T) {
	measure := func(trace redisstore.Tracer) float64 {
		s := open(t, client(t, testenv.SharedRedis(t).URL()), redisstore.Options{Trace: trace})
		req := limiter.Request{Asks: []limiter.Ask{ask(entity(), 1, limits(month)[1])}}
		var res limiter.Result
		return testing.AllocsPerRun(500, func() {
			if err := s.Do(context.Background(), &req, &res); err != nil {
				t.Fatal(err)
			}
		})
	}
	if off, on := measure(nil), measure(&recorder{}); off != on {
		t.Errorf("%v allocations without traces, %v with traces that do not record the request", off, on)
	}
}
