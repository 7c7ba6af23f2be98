package home

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/limiter"
	"sluice/limiter/memstore"
)

// A node that refuses messages, because its settings are those of before, does not stand for its region.
func TestLink_AnotherNodeIsAskedAfterARefusal(t *testing.T) {
	w := onMemory(t, "eu", "us")
	refuses := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		refuse(rw, http.StatusUnprocessableEntity, "")
	}))
	defer refuses.Close()
	l := w["eu"].links["us"]
	l.Addresses = []string{refuses.URL, w["us"].server.URL}
	for l.Node()%2 != 0 {
		l.Leave(l.Node())
	}
	for range 3 {
		w["eu"].do(t, limiter.OpTake, "", ask(inUS, 10, 1))
	}
	if left(t, w, ask(inUS, 10, 1)) != 7 || w["eu"].count("") != 3 {
		t.Errorf("%d left of 10 after 3 takes, %v", left(t, w, ask(inUS, 10, 1)), w["eu"].reasons)
	}
}

// A node that is about to stop closes its connections. The next message goes to another one, because a new connection
// would wait until the stopping node has ended.
func TestLink_ANodeThatStopsIsLeft(t *testing.T) {
	w := onMemory(t, "eu", "us")
	var came atomic.Int64
	stops := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		came.Add(1)
		rw.Header().Set("Connection", "close")
		w["us"].ServeHTTP(rw, r)
	}))
	defer stops.Close()
	l := w["eu"].links["us"]
	l.Addresses = []string{stops.URL, w["us"].server.URL}
	for l.Node()%2 != 0 {
		l.Leave(l.Node())
	}
	for range 3 {
		w["eu"].do(t, limiter.OpTake, "", ask(inUS, 10, 1))
	}
	if left(t, w, ask(inUS, 10, 1)) != 7 || came.Load() != 1 {
		t.Errorf("%d left of 10 after 3 takes, of which the stopping node had %d", left(t, w, ask(inUS, 10, 1)), came.Load())
	}
}

// However many checks a node sends, each waits for one round trip and not for a second one.
func TestLink_ABusyNodeWaitsForOneRoundTrip(t *testing.T) {
	const trip = 300 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		m, other := memstore.New(memstore.Options{}), memstore.New(memstore.Options{})
		defer func() { _, _ = m.Close(), other.Close() }()
		memory := &memoryLink{delay: func() time.Duration { return trip / 2 }}
		w := worldOver(t, time.Minute, map[string]limiter.Store{"eu": other, "us": m}, memory)
		var wg sync.WaitGroup
		var most atomic.Int64
		for range 2000 { // two seconds
			<-time.After(time.Millisecond)
			wg.Go(func() {
				sent := time.Now()
				w["eu"].do(t, limiter.OpTake, "", ask(inUS, 1_000_000, 1))
				for waited := int64(time.Since(sent)); ; {
					if old := most.Load(); waited <= old || most.CompareAndSwap(old, waited) {
						return
					}
				}
			})
		}
		wg.Wait()
		if got := time.Duration(most.Load()); got > trip*5/4 {
			t.Errorf("a check waited %s, and a round trip takes %s", got, trip)
		}
	})
}

// refusing is a store that decides nothing.
type refusing struct {
	limiter.Store
	err error
}

func (s refusing) Do(context.Context, *limiter.Request, *limiter.Result) error { return s.err }

func (s refusing) DoAll(_ context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = s.err
	}
}

// A home that has no turn for a check answers, so that the region that asks it denies as it would itself. Every other
// failure is that of the home, and nothing is wrong with the store of the region that asks.
func TestLink_OverloadOfAHomeStaysOverload(t *testing.T) {
	for cause, want := range map[limiter.Cause]limiter.Cause{limiter.CauseOverload: limiter.CauseOverload,
		limiter.CauseTimeout: limiter.CauseHome, limiter.CauseStarved: limiter.CauseHome} {
		m := memstore.New(memstore.Options{})
		t.Cleanup(func() { _ = m.Close() })
		w := world(t, 2*time.Second, map[string]limiter.Store{"eu": m,
			"us": refusing{err: &limiter.StoreError{Cause: cause, Err: errors.New("not now")}}})
		var res limiter.Result
		err := w["eu"].Do(t.Context(), &limiter.Request{Op: limiter.OpTake, Asks: []limiter.Ask{ask(inUS, 10, 1)}}, &res)
		if got := limiter.CauseOf(err); got != want {
			t.Errorf("%s at the home is %s, want %s", cause, got, want)
		}
	}
}
