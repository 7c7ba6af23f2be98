package home

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"sluice/limiter"
)

// A node that refuses messages, because its settings are those of before, does not stand for its region.
func TestLink_AnotherNodeIsAskedAfterARefusal(t *testing.T) {
	w := onMemory(t, "eu", "us")
	refuses := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusUnprocessableEntity)
	}))
	defer refuses.Close()
	l := w["eu"].links["us"]
	l.Addresses = []string{refuses.URL, w["us"].server.URL}
	l.at.Store(0)
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
	l.at.Store(0)
	for range 3 {
		w["eu"].do(t, limiter.OpTake, "", ask(inUS, 10, 1))
	}
	if left(t, w, ask(inUS, 10, 1)) != 7 || came.Load() != 1 {
		t.Errorf("%d left of 10 after 3 takes, of which the stopping node had %d", left(t, w, ask(inUS, 10, 1)), came.Load())
	}
}
