package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/limiter"
)

// group is requests that travel together in one script call. Its owner fills it,
// submits it and waits for done; in between it belongs to the lane.
type group struct {
	ops  []op
	done chan struct{} // one element when the answers are there

	deadline time.Time // of the caller, if bounded
	bounded  bool
	giving   bool // gives back what a request across slots has taken: no deadline cuts it off
	sent     bool // guarded by the lane
}

func newGroup(n int) *group {
	return &group{ops: make([]op, 0, n), done: make(chan struct{}, 1)}
}

// reset empties g for reuse; its requests keep their buffers.
func (g *group) reset() { g.ops, g.sent = g.ops[:0], false }

// add returns the next free op.
func (g *group) add() *op {
	if len(g.ops) < cap(g.ops) {
		g.ops = g.ops[:len(g.ops)+1]
	} else {
		g.ops = append(g.ops, op{})
	}
	return &g.ops[len(g.ops)-1]
}

func (g *group) keys() int {
	n := 0
	for i := range g.ops {
		n += len(g.ops[i].keys)
	}
	return n
}

// lane is a bounded queue of groups.
type lane struct {
	maxBatch, maxQueue int

	mu     sync.Mutex
	wake   sync.Cond
	queue  []*group
	queued int // requests in queue
	closed bool
}

func newLane(maxBatch, maxQueue int) *lane {
	l := &lane{maxBatch: maxBatch, maxQueue: maxQueue}
	l.wake.L = &l.mu
	return l
}

var (
	errClosed = errors.New("the store is closed")
	errQueue  = errors.New("too many requests are waiting for the counter store")
)

// submit queues g, or refuses it at once.
func (l *lane) submit(g *group) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return &limiter.StoreError{Cause: limiter.CauseClosed, Err: errClosed}
	case l.queued+len(g.ops) > l.maxQueue:
		return &limiter.StoreError{Cause: limiter.CauseBusy, Err: errQueue}
	}
	l.queue = append(l.queue, g)
	l.queued += len(g.ops)
	l.wake.Signal()
	return nil
}

// wait returns nil when the answers of g are there, or gives up with ctx. What
// has not been sent by then never will be.
func (l *lane) wait(ctx context.Context, g *group) error {
	select {
	case <-g.done:
		return nil
	case <-ctx.Done():
	}
	if l.withdraw(g) {
		return given(ctx, false)
	}
	select {
	case <-g.done:
		return nil
	default:
		return given(ctx, true)
	}
}

// withdraw takes g out of the queue and reports whether it was still there.
func (l *lane) withdraw(g *group) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.sent {
		return false
	}
	for i, q := range l.queue {
		if q == g {
			n := len(l.queue) - 1
			copy(l.queue[i:], l.queue[i+1:])
			l.queue[n] = nil
			l.queue = l.queue[:n]
			l.queued -= len(g.ops)
			return true
		}
	}
	return false
}

// take waits for requests and appends the next batch to into, whole groups in
// order of arrival. It returns none when the lane is closed and empty.
func (l *lane) take(into []*group) []*group {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 {
		if l.closed {
			return into
		}
		l.wake.Wait()
	}
	n, ops, keys := 0, 0, 0
	for n < len(l.queue) {
		g := l.queue[n]
		ops, keys = ops+len(g.ops), keys+g.keys()
		if n > 0 && (ops > l.maxBatch || keys > maxKeys) {
			ops -= len(g.ops)
			break
		}
		g.sent = true
		into = append(into, g)
		n++
	}
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	l.queued -= ops
	return into
}

func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake.Broadcast()
}
