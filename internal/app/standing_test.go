package app

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"sluice/internal/config"
)

// whole is the testing.TB of servers that many tests share. They stop after the last test. If one of them fails, the
// run ends.
type whole struct {
	testing.TB // nil: nothing else is called
	m          *testing.M
}

// standingStops are the functions that Cleanup of a whole has registered.
var standingStops struct {
	sync.Mutex
	all []func()
}

// Run runs the tests and then the functions that Cleanup has registered, last in first out.
func (w *whole) Run() int {
	code := w.m.Run()
	standingStops.Lock()
	defer standingStops.Unlock()
	for i := len(standingStops.all) - 1; i >= 0; i-- {
		standingStops.all[i]()
	}
	return code
}

func (*whole) Cleanup(f func()) {
	standingStops.Lock()
	defer standingStops.Unlock()
	standingStops.all = append(standingStops.all, f)
}

func (w *whole) TempDir() string {
	dir, err := os.MkdirTemp("", "sluice-standing-")
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (*whole) Context() context.Context          { return context.Background() }
func (*whole) Helper()                           {}
func (*whole) Error(args ...any)                 { panic(fmt.Sprint(args...)) }
func (*whole) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (*whole) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (*whole) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// shared starts something for many tests. A test that runs again, with go test -count, has used its names and keys
// there: it gets a new one, and so do those after it.
type shared[T any] struct {
	start func() T
	mu    sync.Mutex
	last  T
	users map[string]bool // of the last one
}

func (s *shared[T]) get(t *testing.T) T {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == nil || s.users[t.Name()] {
		s.last, s.users = s.start(), map[string]bool{}
	}
	s.users[t.Name()] = true
	return s.last
}

// of returns the node for a test, which its failures concern.
func (n *node) of(t *testing.T) *node {
	t.Helper()
	mine := *n
	mine.t = t
	return &mine
}

var standingNode = shared[*node]{start: func() *node {
	t := &whole{}
	return start(t, settings(t))
}}

// standing is an embedded node that parallel tests share: each has its own keys and its own rules, which match its own
// routes. None creates a token, stops the node, or reads a count of all requests. The node starts with the first of
// them, after the tests that are not parallel: those may change what belongs to the process.
func standing(t *testing.T) *node {
	t.Helper()
	return standingNode.get(t).of(t)
}

// pair is two nodes with one Postgres and one Redis. They also serve gRPC, at addrs.
type pair struct {
	cfg   config.Serve
	nodes [2]*node
	addrs [2]string
}

var standingPairs = map[string]*shared[*pair]{
	"on": {start: func() *pair { return newPair("on") }}, "off": {start: func() *pair { return newPair("off") }}}

func newPair(loop string) *pair {
	t := &whole{}
	p := &pair{cfg: sharedSettings(t)}
	p.cfg.Loop = loop
	p.cfg.PollInterval = time.Minute // so that a node learns of a change at the other one by its notification
	withProfile(t, p.cfg)
	for i := range p.nodes {
		p.nodes[i], p.addrs[i] = startGRPC(t, p.cfg)
	}
	return p
}

// standingPair is standing with two nodes, which read calls with the loop or without it.
func standingPair(t *testing.T, loop string) *pair {
	t.Helper()
	p := *standingPairs[loop].get(t)
	for i, n := range p.nodes {
		p.nodes[i] = n.of(t)
	}
	return &p
}
