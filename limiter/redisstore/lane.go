package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

// group is requests that travel together in one script call. Its owner fills it,
// submits it and waits for done; in between it belongs to the lane.
type group struct {
	ops  []script.Request
	done chan struct{} // one element when the answers are there, or it expired
	// alone is where the caller who carries g by itself lists its one request.
	alone [1]*script.Request

	deadline time.Time // of the caller, if bounded
	bounded  bool
	within   time.Duration // what the caller's deadline was set to at first; 0 if unknown
	watched  bool          // the lane keeps the deadline; else whoever waits does
	giving   bool          // gives back what a request across slots has taken: no deadline cuts it off
	sent     bool          // guarded by the lane
	expired  bool          // guarded by the lane until done: no answer came before the deadline
	hopeless bool          // guarded by the lane until done: too little time was left to send it
}

func newGroup(n int) *group {
	return &group{ops: make([]script.Request, 0, n), done: make(chan struct{}, 1)}
}

// reset empties g for reuse; its requests keep their buffers.
func (g *group) reset() { g.ops, g.sent, g.watched, g.within = g.ops[:0], false, false, 0 }

// add returns the next free request.
func (g *group) add() *script.Request {
	if len(g.ops) < cap(g.ops) {
		g.ops = g.ops[:len(g.ops)+1]
	} else {
		g.ops = append(g.ops, script.Request{})
	}
	return &g.ops[len(g.ops)-1]
}

func (g *group) keys() int {
	n := 0
	for i := range g.ops {
		n += len(g.ops[i].Keys)
	}
	return n
}

// flight is a script call under way.
type flight struct {
	groups []*group // none: no call
	ops    int
	began  time.Time
}

// lane is a bounded queue of groups and the script calls under way.
type lane struct {
	maxBatch, maxQueue int

	mu      sync.Mutex
	wake    sync.Cond
	queue   []*group
	queued  int // requests in queue
	closed  bool
	flights [inFlight]flight
	flying  int // script calls under way
	load    int // requests in them
	pace    pace
	watch   deadlines // of queue and flights
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
	return l.enqueue(g)
}

func (l *lane) enqueue(g *group) error {
	switch {
	case l.closed:
		return &limiter.StoreError{Cause: limiter.CauseClosed, Err: errClosed}
	case l.queued+len(g.ops) > l.maxQueue:
		return &limiter.StoreError{Cause: limiter.CauseBusy, Err: errQueue}
	}
	l.queue = append(l.queue, g)
	l.queued += len(g.ops)
	if g.watched {
		l.expect(g.deadline)
	}
	if l.ripe() {
		l.wake.Signal()
	}
	return nil
}

// claim gives a calm lane's next script call to the caller itself, which then
// carries g and calls finish: where nobody waits to share a call with it, handing
// it to another goroutine would only cost time. Where the lane is not calm it
// submits g.
func (l *lane) claim(g *group) (slot int, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) > 0 || l.closed || !l.departs(len(g.ops)) {
		return 0, false, l.enqueue(g)
	}
	g.sent, g.watched = true, false // the call ends with the caller's deadline
	slot = l.depart(wallTime())
	l.flights[slot].groups = append(l.flights[slot].groups, g)
	l.flights[slot].ops = len(g.ops)
	l.load += len(g.ops)
	return slot, true, nil
}

// depart claims a free slot for a call; there must be one.
func (l *lane) depart(now time.Time) int {
	l.flying++
	for i := range l.flights {
		if len(l.flights[i].groups) == 0 {
			l.flights[i].began = now
			return i
		}
	}
	panic("more script calls under way than a lane has room for")
}

// ripe reports whether the next call should start.
func (l *lane) ripe() bool { return len(l.queue) > 0 && l.departs(l.queued) }

// departs reports whether a call with n requests should start: at once when none
// is under way; beside others, when it has at least half as many requests as
// those carry. Fewer travel better in the call after them, since Redis runs one
// script at a time in any case.
func (l *lane) departs(n int) bool {
	return l.flying == 0 || l.flying < inFlight && 2*n >= l.load
}

// wait returns nil when the answers of g are there, or gives up when its caller
// leaves, which canceled tells, or with its deadline. What has not been sent by
// then never will be.
func (l *lane) wait(ctx context.Context, canceled <-chan struct{}, g *group) error {
	select {
	case <-g.done:
		return g.outcome()
	case <-canceled:
	}
	if l.withdraw(g) {
		return given(ctx, false)
	}
	select {
	case <-g.done:
		return g.outcome()
	default:
		return given(ctx, true)
	}
}

// outcome is the error of a group that is done: nil if it has its answers.
func (g *group) outcome() error {
	switch {
	case g.hopeless:
		return &limiter.StoreError{Cause: limiter.CauseBusy, Err: errQueue}
	case g.expired: // its deadline was the lane's to keep
		return &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: g.sent, Err: context.DeadlineExceeded}
	}
	return nil
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

// take waits until the next call should start and claims it: whole groups in
// order of arrival, appended to into, but for those that have too little time
// left. It returns none when the lane is closed and empty. The caller calls
// finish with the slot.
func (l *lane) take(into []*group) (batch []*group, slot int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for !l.ripe() {
			if l.closed && len(l.queue) == 0 {
				return into, 0
			}
			l.wake.Wait()
		}
		now := wallTime()
		batch, ops := l.board(into, now)
		if ops == 0 {
			continue
		}
		slot = l.depart(now)
		f := &l.flights[slot]
		f.groups, f.ops = append(f.groups[:0], batch[len(into):]...), ops
		l.load += ops
		return batch, slot
	}
}

// board moves the groups of one call from the queue to into and returns how many
// requests that are.
func (l *lane) board(into []*group, now time.Time) (batch []*group, ops int) {
	n, keys := 0, 0
	for _, g := range l.queue {
		if l.pace.hopeless(g, now) {
			l.queued -= len(g.ops)
			g.hopeless = true
			g.done <- struct{}{} // never blocks: a group is answered once
			n++
			continue
		}
		if keys += g.keys(); ops > 0 && (ops+len(g.ops) > l.maxBatch || keys > maxKeys) {
			break
		}
		ops += len(g.ops)
		g.sent = true
		into = append(into, g)
		n++
	}
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	l.queued -= ops
	return into, ops
}

// finish ends a call and answers its groups. An expired one has been answered
// already and is nobody's any more.
func (l *lane) finish(slot int, batch []*group) {
	l.mu.Lock()
	f := &l.flights[slot]
	l.pace.note(wallTime().Sub(f.began))
	l.load -= f.ops
	l.flying--
	clear(f.groups)
	f.groups, f.ops = f.groups[:0], 0
	if l.ripe() || l.closed {
		l.wake.Broadcast()
	}
	l.mu.Unlock()
	for _, g := range batch {
		if !g.expired {
			g.done <- struct{}{}
		}
	}
}

// close refuses what comes from now on.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake.Broadcast()
}

// drain waits for the calls under way of a closed lane whose workers have
// returned: those that callers carry themselves.
func (l *lane) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.flying > 0 {
		l.wake.Wait()
	}
	if l.watch.timer != nil {
		l.watch.timer.Stop()
	}
}
