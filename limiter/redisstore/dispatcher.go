package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"sluice/internal/gather"
	"sluice/limiter"
)

// dispatcher decides when the requests of a single server, or of a range of a
// cluster's hash slots, go out in a script call, and which of them go together.
//
// A request arrives in a batch: alone from Store.Do, up to MaxBatch of them from
// Store.DoAll. A batch is sent whole and answered as a whole.
//
//   - Idle: if a call may start at once and no batch waits, the caller makes
//     the call for its own batch (claim, finish), unless its deadline is too near or further away than
//     longestCall. Handing the batch to another goroutine would only cost time.
//   - Busy: the batch waits in a bounded queue (submit, wait). When a call may start, one
//     of the dispatcher's goroutines takes what has queued, in order of arrival, up to
//     MaxBatch requests, and makes the call (next, finish).
//   - A call may start when no other call is in progress. While other calls are, it may start if it carries at least
//     half as many requests as they do. Fewer requests do better in the next call, since Redis runs one script at a
//     time in any case.
//
// The terms of a batch (admission.go) say how long it waits, and whether it then counts as overload or as a failure of
// the server. The deadline of the connection ends a call after the store timeout (deadline.go), so a sent batch needs
// no timer, unless its caller set a deadline or the server does not answer. One timer serves all other batches and
// rings at the earliest end of a wait: a timer for each request would cost more than deciding it. The error of a batch
// says whether it was sent. A sent batch may have been applied, so it is never sent again.
//
// The server does not answer (failing) from when a call is refused, or two calls get no answer of which one was made
// after the other had failed, with no answer to any call since, until a call succeeds. One silent call is not enough: a
// server that lacked CPU for the store timeout leaves all calls in progress unanswered, and while more arrives than can
// be decided, all waiting requests would be given up at once.
type dispatcher struct {
	maxBatch, maxQueue int
	timings            Timings // may be nil

	mu      sync.Mutex
	wake    sync.Cond
	queue   gather.Queue[*batch]
	closed  bool
	calls   [inFlight]call
	running int         // calls under way
	carried int         // requests in them
	timer   *time.Timer // rings at the earliest end of a wait
	rings   time.Time   // when; zero if it is not set
	silence time.Time   // when a call got no answer, since when none succeeded; zero for never
	circumstances
}

// ringEvery is the least time between two checks of the waiting batches.
const ringEvery = time.Millisecond

// call is a script call under way.
type call struct {
	batches  []*batch // none: no call
	requests int
	began    time.Time
}

func newDispatcher(maxBatch, maxQueue int) *dispatcher {
	d := &dispatcher{maxBatch: maxBatch, maxQueue: maxQueue}
	d.wake.L = &d.mu
	return d
}

var (
	errClosed = errors.New("the store is closed")
	errQueue  = errors.New("more requests arrive than can be decided")
	// errOverload is the error of a request that found no turn.
	errOverload = &limiter.StoreError{Cause: limiter.CauseOverload, Err: errQueue}
	// errUnwritten is the error of a request whose call was never written, which says nothing about the server.
	errUnwritten = &limiter.StoreError{Cause: limiter.CauseOverload, Err: errors.New("no connection is free")}
	// errGone is the error of a request that was not sent because its caller had left.
	errGone = &limiter.StoreError{Cause: limiter.CauseCanceled, Err: context.Canceled}
)

// submit queues b, or refuses it at once.
func (d *dispatcher) submit(b *batch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.enqueue(b)
}

// enqueue is submit for a caller that holds mu.
func (d *dispatcher) enqueue(b *batch) error {
	switch {
	case d.closed:
		return &limiter.StoreError{Cause: limiter.CauseClosed, Err: errClosed}
	case b.isUndo || d.queue.Len()+len(b.requests) <= d.maxQueue: // undos are bounded elsewhere, and must not starve
	case d.failing:
		return &limiter.StoreError{Cause: limiter.CauseBusy, Err: errQueue}
	default:
		return errOverload
	}
	if d.lost != nil {
		b.lost = d.lost()
	}
	keys := 0
	for i := range b.requests {
		keys += len(b.requests[i].Keys)
	}
	d.queue.Push(&b.place, b, len(b.requests), keys)
	if !b.deadline.IsZero() {
		d.ringAt(b.deadline)
	}
	if d.mayStart(d.queue.Len()) {
		d.wake.Signal()
	}
	return nil
}

// claim lets the caller itself make the next call for b, beginning at start. The caller then calls
// finish. If others wait or no call may start, claim submits b.
func (d *dispatcher) claim(b *batch, start time.Time) (call int, ok bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queue.Len() > 0 || d.closed || !d.mayStart(len(b.requests)) {
		return 0, false, d.enqueue(b)
	}
	b.isSent, b.watched = true, false // the deadline of the connection ends the call
	call = d.begin(len(b.requests), start)
	d.calls[call].batches = append(d.calls[call].batches, b)
	return call, true, nil
}

// mayStart reports whether a call with n requests may start.
func (d *dispatcher) mayStart(n int) bool {
	return n > 0 && (d.running == 0 || d.running < inFlight && 2*n >= d.carried)
}

// begin takes a free place for a call with n requests; there must be one. mu is held.
func (d *dispatcher) begin(n int, now time.Time) int {
	d.running++
	d.carried += n
	for i := range d.calls {
		if c := &d.calls[i]; len(c.batches) == 0 {
			c.requests, c.began = n, now
			return i
		}
	}
	panic("more script calls under way than a dispatcher has room for")
}

// next waits until a call may start and claims it: whole batches in order of arrival, appended to into, without batches
// that are not worth sending. It returns none when the dispatcher is closed and empty. The caller calls finish.
func (d *dispatcher) next(into []*batch) (batches []*batch, call int, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		for !d.mayStart(d.queue.Len()) {
			if d.closed && d.queue.Len() == 0 {
				return into, 0, now
			}
			d.wake.Wait()
		}
		now = wallTime()
		batches, n := d.queue.Take(into, d.maxBatch, maxKeys, func(b *batch) bool { return d.sends(b, now) })
		if n == 0 {
			continue
		}
		call = d.begin(n, now)
		d.calls[call].batches = append(d.calls[call].batches, batches[len(into):]...)
		return batches, call, now
	}
}

// sends reports whether a batch from the queue is sent. Otherwise it answers it.
func (d *dispatcher) sends(b *batch, now time.Time) bool {
	select {
	case <-b.canceled:
		b.outcome = left
	default:
		if b.outcome = leftOut; !b.leaveOut(d.failing) {
			b.outcome, _ = d.waiting(b, now)
		}
	}
	if b.isSent = b.outcome == answered; !b.isSent {
		b.done <- struct{}{} // never blocks: a batch is answered once
	}
	return b.isSent
}

// waiting returns why a batch that was not sent waits no longer at now; answered means that it still does, until again
// at least; zero: until its turn comes.
func (d *dispatcher) waiting(b *batch, now time.Time) (out outcome, again time.Time) {
	fate, again := b.waiting(now, &d.circumstances)
	switch fate {
	case unanswered:
		return expired, again
	case overloaded:
		return noTurn, again
	case held:
	}
	if b.impatient && !d.failing {
		fate, sooner := b.refuses(now, &d.circumstances)
		if fate == overloaded && b.refuseImpatient() {
			return noTurn, again
		}
		if fate == held && sooner.Before(again) {
			again = sooner
		}
	}
	return answered, again
}

// ended says how a call ended.
type ended uint8

const (
	succeeded ended = iota // the server answered
	failed                 // the server refuses every call, or cannot be reached
	silent                 // the server has had its time and did not answer
	nothing                // the call says nothing about the server
)

// finish ends a call and answers its batches: none for a caller who made its own call. An expired batch was answered
// before. A batch whose call was never written goes back to the front of the queue. waits are the waits of the batches.
func (d *dispatcher) finish(call int, batches []*batch, waits []Wait, how ended) {
	now := wallTime()
	d.mu.Lock()
	c := &d.calls[call]
	took, requests := now.Sub(c.began), c.requests
	d.running--
	d.carried -= c.requests
	clear(c.batches)
	c.batches, c.requests = c.batches[:0], 0
	if d.learn(how, c.began, now) {
		d.look(now)
	}
	if slices.ContainsFunc(batches, (*batch).unwritten) {
		batches = d.requeue(batches)
	}
	if d.closed || d.mayStart(d.queue.Len()) {
		d.wake.Broadcast()
	}
	d.mu.Unlock()
	switch {
	case d.timings == nil:
	case len(batches) == 0:
		d.timings.CalledAtOnce(took, requests)
	default:
		d.timings.Called(took, requests, waits)
	}
	for _, b := range batches {
		if b.outcome != expired {
			b.done <- struct{}{}
		}
	}
}

// learn notes how a call ended that began at a time, and reports whether the server is failing since this call. The
// caller holds mu.
func (d *dispatcher) learn(how ended, began, now time.Time) bool {
	switch {
	case how == succeeded:
		d.failing, d.succeeded, d.silence = false, now, time.Time{}
		return false
	case how == nothing || d.failing || d.succeeded.After(began):
		return false
	case how == silent && d.silence.IsZero():
		d.silence = now
		return false
	case how == silent && began.Before(d.silence):
		return false
	}
	d.failing = true
	return true
}

// requeue puts the batches whose call was never written back to the front of the queue, and returns the rest. The
// caller holds mu.
func (d *dispatcher) requeue(batches []*batch) (rest []*batch) {
	for _, b := range slices.Backward(batches) {
		if b.outcome == expired || !b.unwritten() {
			rest = append(rest, b)
			continue
		}
		b.again()
		d.queue.PutBack(&b.place)
		if !b.deadline.IsZero() {
			d.ringAt(b.deadline)
		}
	}
	return rest
}

// wait returns nil when the answers of b are there, or gives up when its caller leaves,
// which canceled tells. What has not been sent by then never will be.
func (d *dispatcher) wait(ctx context.Context, canceled <-chan struct{}, b *batch) error {
	select {
	case <-b.done:
		return b.err(ctx)
	case <-canceled:
	}
	d.mu.Lock()
	withdrawn, answering := d.queue.Remove(&b.place), !d.failing && d.succeeded.After(b.start)
	d.mu.Unlock()
	if withdrawn {
		return b.withdrawn(ctx, answering)
	}
	select {
	case <-b.done:
		return b.err(ctx)
	default:
		return callerLeft(ctx, true)
	}
}

// ringAt makes the timer ring at t at the latest. The caller holds mu.
func (d *dispatcher) ringAt(t time.Time) {
	if !d.rings.IsZero() && !t.Before(d.rings) {
		return
	}
	d.rings = t
	in := t.Sub(wallTime())
	if d.timer == nil {
		d.timer = time.AfterFunc(in, d.expire)
		return
	}
	d.timer.Reset(in)
}

// expire is what the timer calls.
func (d *dispatcher) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rings = time.Time{}
	d.look(wallTime())
}

// look answers every batch whose wait is over, removes the unsent ones from the queue, and sets the timer for the
// others. The caller holds mu.
func (d *dispatcher) look(now time.Time) {
	for b := range d.queue.All() {
		out, again := d.waiting(b, now)
		if out == answered {
			d.lookAgain(again, now)
			continue
		}
		d.queue.Remove(&b.place)
		b.outcome = out
		b.done <- struct{}{} // never blocks: a batch is answered once
	}
	for i := range d.calls {
		for _, b := range d.calls[i].batches {
			if !b.watched || b.outcome == expired {
				continue
			}
			over, again := b.sent(now, d.failing)
			if !over {
				d.lookAgain(again, now)
				continue
			}
			b.outcome = expired
			b.done <- struct{}{} // never blocks: a batch is answered once
		}
	}
}

// lookAgain makes the timer ring at t, or a little later, unless t is zero.
func (d *dispatcher) lookAgain(t, now time.Time) {
	if t.IsZero() {
		return
	}
	if soonest := now.Add(ringEvery); t.Before(soonest) {
		t = soonest
	}
	d.ringAt(t)
}

// isFailing reports whether the server does not answer.
func (d *dispatcher) isFailing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failing
}

// close makes the dispatcher refuse further batches.
func (d *dispatcher) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.wake.Broadcast()
}

// drain waits for the calls that callers of a closed dispatcher still make. The goroutines of the dispatcher have
// returned.
func (d *dispatcher) drain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.running > 0 {
		d.wake.Wait()
	}
	if d.timer != nil {
		d.timer.Stop()
	}
}

// wallTime is the wall clock, which this package reads nowhere else.
var wallTime = time.Now //nolint:forbidigo // measures durations and outages, never a bucket's time
