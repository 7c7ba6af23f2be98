package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// The instants of an open loop are fixed in advance: every check is either sent or has found no connection.
func TestLoad_AnOpenLoopKeepsItsPlan(t *testing.T) {
	l := kindLoads(t)["HTTP"]
	l.rate, l.length, l.conns = 3000, 200*time.Millisecond, 1
	begun, ended := false, false
	l.during = func() (func() error, error) {
		begun = true
		return func() error { ended = true; return nil }, nil
	}
	y, err := l.run(t.Context())
	if err != nil || !begun || !ended {
		t.Fatal(err, begun, ended)
	}
	if y.sent+y.unplaced != 600 || y.unplaced == 0 || len(y.lag) != y.sent {
		t.Errorf("%d sent, %d found no connection, %d lags", y.sent, y.unplaced, len(y.lag))
	}
}

// Every connection has one check, though the answers arrive long before the next is due.
func TestLoad_UsesConnectionsInTurn(t *testing.T) {
	const conns = 10
	var mu sync.Mutex
	used := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		used[r.RemoteAddr] = true
		_, _ = io.WriteString(w, `{"allowed":true}`)
	}))
	defer server.Close()
	addr := server.Listener.Addr().String()
	l := &load{addr: addr, conns: conns, rate: 100, length: conns * 10 * time.Millisecond, inTurn: true,
		wire: func() wire { return &httpWire{requests: plainChecks(addr, []string{"{}"})} }}
	y, err := l.run(t.Context())
	mu.Lock()
	defer mu.Unlock()
	if err != nil || y.answered() != conns || len(used) != conns {
		t.Errorf("%d checks on %d connections, want one on each of %d, %v", y.answered(), len(used), conns, err)
	}
}

// A server that closes its connections leaves checks without an answer, and the load ends nevertheless.
func TestLoad_CountsChecksWithoutAnAnswer(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			c.Close()
		}
	}()
	l := &load{addr: listener.Addr().String(), conns: 3, length: 50 * time.Millisecond,
		wire: func() wire { return &httpWire{requests: [][]byte{[]byte("ask")}} }}
	y, err := l.run(t.Context())
	if err != nil || y.sent != 3 || y.answered() != 0 || y.unanswered() != 3 || y.verdicts[failed] != 3 {
		t.Errorf("got %+v, %v", y, err)
	}
}

func TestLoad_TellsWhatGoesWrongBesideIt(t *testing.T) {
	l := kindLoads(t)["HTTP"]
	broken := errors.New("broken")
	l.length = time.Millisecond
	l.during = func() (func() error, error) { return func() error { return broken }, nil }
	if _, err := l.run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	l.during = func() (func() error, error) { return nil, broken }
	if _, err := l.run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
