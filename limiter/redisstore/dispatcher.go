package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

// dispatcher decides when the requests of a single server, or of a range of a
// cluster's hash slots, go out in a script call, and which of them go together.
//
// A request arrives in a batch: alone from Store.Do, up to MaxBatch of them from
// Store.DoAll. A batch is sent whole and answered as a whole.
//
//   - Idle: if a call may start at once and no batch waits, the caller of Store.Do makes
//     the call for its own batch (claim, finish), unless its deadline is further away than
//     longestCall. Handing the batch to another goroutine would only cost time.
//   - Busy: the batch waits in a bounded queue (submit, wait). When a call may start, one
//     of the dispatcher's goroutines takes what has queued, in order of arrival, up to
//     MaxBatch requests, and makes the call (next, finish).
//   - A call may start when none is under way; beside others, when it has at least half
//     as many requests as those carry. Fewer are better off in the call after them,
//     since Redis runs one script at a time in any case.
//
// A deadline holds independent of the server. A call that a caller makes itself ends at
// the caller's deadline. For batches that wait, one timer rings at the earliest deadline: a
// timer for each request would cost more than deciding it, and under load this one rings
// once in the time that a check may take. The error of a batch whose deadline has passed
// says whether the batch was sent. If it was, it may have been applied, so it is never
// sent again.
//
// A batch is not sent if it has less time left than a few calls take, or if its caller has
// left. An overloaded server would otherwise get only batches that miss their deadlines,
// charge them for nothing, and look as if it failed. While no call returns, a batch that waits
// is answered as soon as it would not be sent even if a call returned now: when a server
// freezes under many callers, most of them have their answers long before their deadlines, and
// not all at the same moment as the deadlines.
type dispatcher struct {
	maxBatch, maxQueue int
	timings            Timings // may be nil

	mu      sync.Mutex
	wake    sync.Cond
	queue   []*batch
	queued  int // requests in queue
	closed  bool
	calls   [inFlight]call
	running int           // calls under way
	carried int           // requests in them
	took    time.Duration // how long calls take, a moving average
	timer   *time.Timer   // for the deadlines of queue and calls
	rings   time.Time     // when; zero if it is not set
}

const (
	// averageOf is how many calls the average of their length covers, about.
	averageOf = 8
	// ringEvery is the least time between two looks for batches that will not be sent.
	ringEvery = time.Millisecond
	// A batch is sent only with this many times the length of a call left, or with this
	// part of what its caller had at first.
	leastCalls, leastPart = 4, 3
)

// call is a script call under way.
type call struct {
	batches  []*batch // none: no call
	requests int
	began    time.Time
}

// batch is requests that go out together in one script call. Its owner fills it,
// submits it and waits for done; in between it belongs to the dispatcher.
type batch struct {
	requests []script.Request
	done     chan struct{} // one element when it is answered, or will not be
	// alone is where the caller who makes its own call lists its one request.
	alone [1]*script.Request

	deadline time.Time // of the caller, if bounded
	bounded  bool
	within   time.Duration   // how long the deadline was away at first; 0 if unknown
	canceled <-chan struct{} // closed when the caller leaves; may be nil
	watched  bool            // the dispatcher watches the deadline; otherwise the caller does
	isUndo   bool            // undoes what a request across slots has taken: no deadline ends it
	traced   Traced          // nil if it is not recorded
	arrived  time.Time       // when it was, if it is recorded

	// The dispatcher's own until done.
	sent    bool
	outcome outcome
}

// outcome says why a batch has no answers.
type outcome uint8

const (
	answered outcome = iota
	expired          // its deadline passed first
	tooOld           // too little time was left to send it
	left             // its caller left before it was sent
)

func newBatch(n int) *batch {
	return &batch{requests: make([]script.Request, 0, n), done: make(chan struct{}, 1)}
}

// reset empties b for reuse; its requests keep their buffers.
func (b *batch) reset() {
	b.requests, b.sent, b.watched, b.within, b.canceled = b.requests[:0], false, false, 0, nil
	b.traced = nil
}

// add returns the next free request.
func (b *batch) add() *script.Request {
	if len(b.requests) < cap(b.requests) {
		b.requests = b.requests[:len(b.requests)+1]
	} else {
		b.requests = append(b.requests, script.Request{})
	}
	return &b.requests[len(b.requests)-1]
}

// refuse sets err for all requests of b.
func (b *batch) refuse(err error) {
	for i := range b.requests {
		b.requests[i].Err = err
	}
}

func newDispatcher(maxBatch, maxQueue int) *dispatcher {
	d := &dispatcher{maxBatch: maxBatch, maxQueue: maxQueue}
	d.wake.L = &d.mu
	return d
}

var (
	errClosed = errors.New("the store is closed")
	errQueue  = errors.New("too many requests are waiting for the counter store")
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
	case d.queued+len(b.requests) > d.maxQueue:
		return &limiter.StoreError{Cause: limiter.CauseBusy, Err: errQueue}
	}
	d.queue = append(d.queue, b)
	d.queued += len(b.requests)
	if b.watched {
		d.ringAt(b.deadline.Add(-b.within / leastPart)) // it is too old then at the earliest
	}
	if d.mayStart(d.queued) {
		d.wake.Signal()
	}
	return nil
}

// claim lets the caller itself make the next call for b, beginning at start. The caller then calls
// finish. If others wait or no call may start, claim submits b.
func (d *dispatcher) claim(b *batch, start time.Time) (call int, ok bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) > 0 || d.closed || !d.mayStart(len(b.requests)) {
		return 0, false, d.enqueue(b)
	}
	b.sent, b.watched = true, false // the call ends with the caller's deadline
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

// next waits until a call may start and claims it: whole batches in order of arrival,
// appended to into, but for those that are not worth sending. It returns none when the
// dispatcher is closed and empty. The caller calls finish.
func (d *dispatcher) next(into []*batch) (batches []*batch, call int, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		for !d.mayStart(d.queued) {
			if d.closed && len(d.queue) == 0 {
				return into, 0, now
			}
			d.wake.Wait()
		}
		now = wallTime()
		batches, n := d.dequeue(into, now)
		if n == 0 {
			continue
		}
		call = d.begin(n, now)
		d.calls[call].batches = append(d.calls[call].batches, batches[len(into):]...)
		return batches, call, now
	}
}

// dequeue moves the batches of one call from the queue to into and returns how many
// requests those are. It answers what is not worth sending.
func (d *dispatcher) dequeue(into []*batch, now time.Time) (batches []*batch, requests int) {
	n, keys := 0, 0
	for _, b := range d.queue {
		if b.outcome = d.skipReason(b, now); b.outcome != answered {
			d.queued -= len(b.requests)
			b.done <- struct{}{} // never blocks: a batch is answered once
			n++
			continue
		}
		for i := range b.requests {
			keys += len(b.requests[i].Keys)
		}
		if requests > 0 && (requests+len(b.requests) > d.maxBatch || keys > maxKeys) {
			break
		}
		requests += len(b.requests)
		b.sent = true
		into = append(into, b)
		n++
	}
	rest := copy(d.queue, d.queue[n:])
	clear(d.queue[rest:])
	d.queue = d.queue[:rest]
	d.queued -= requests
	return into, requests
}

// skipReason returns why a batch is not worth sending; answered means that it is.
func (d *dispatcher) skipReason(b *batch, now time.Time) outcome {
	select {
	case <-b.canceled:
		return left
	default:
	}
	if least := b.least(d.took); least > 0 && b.deadline.Sub(now) < least {
		return tooOld
	}
	return answered
}

// least is how much time b must have left to be sent if calls take took; 0 if it is sent in any case.
func (b *batch) least(took time.Duration) time.Duration {
	if !b.bounded || b.isUndo {
		return 0
	}
	return min(leastCalls*took, b.within/leastPart) // within is 0 if unknown
}

// average is the average length of calls after one more that took that long.
func (d *dispatcher) average(took time.Duration) time.Duration {
	if d.took == 0 {
		return took
	}
	return d.took + (took-d.took)/averageOf
}

// longest is how long the oldest call under way has taken until now, 0 if there is none.
func (d *dispatcher) longest(now time.Time) (t time.Duration) {
	for i := range d.calls {
		if c := &d.calls[i]; len(c.batches) > 0 {
			t = max(t, now.Sub(c.began))
		}
	}
	return t
}

// finish ends a call and answers its batches: none for a caller who made its own call.
// An expired batch was answered before. waits are those of the batches.
func (d *dispatcher) finish(call int, batches []*batch, waits []Wait) {
	now := wallTime()
	d.mu.Lock()
	c := &d.calls[call]
	took, requests := now.Sub(c.began), c.requests
	d.took = d.average(took)
	d.running--
	d.carried -= c.requests
	clear(c.batches)
	c.batches, c.requests = c.batches[:0], 0
	if d.closed || len(d.queue) > 0 && d.mayStart(d.queued) {
		d.wake.Broadcast()
	}
	d.mu.Unlock()
	switch {
	case d.timings == nil:
	case len(batches) == 0:
		d.timings.CalledAtOnce(took)
	default:
		d.timings.Called(took, requests, waits)
	}
	for _, b := range batches {
		if b.outcome != expired {
			b.done <- struct{}{}
		}
	}
}

// wait returns nil when the answers of b are there, or gives up when its caller leaves,
// which canceled tells. What has not been sent by then never will be.
func (d *dispatcher) wait(ctx context.Context, canceled <-chan struct{}, b *batch) error {
	select {
	case <-b.done:
		return b.err(ctx)
	case <-canceled:
	}
	if d.withdraw(b) {
		return callerLeft(ctx, false)
	}
	select {
	case <-b.done:
		return b.err(ctx)
	default:
		return callerLeft(ctx, true)
	}
}

// err is why a batch that is done has no answers, nil if it has them.
func (b *batch) err(ctx context.Context) error {
	switch b.outcome {
	case tooOld:
		return &limiter.StoreError{Cause: limiter.CauseBusy, Err: errQueue}
	case expired: // its deadline was the dispatcher's to keep
		return &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: b.sent, Err: context.DeadlineExceeded}
	case left:
		return callerLeft(ctx, false)
	}
	return nil
}

// withdraw takes b out of the queue and reports whether it was still there.
func (d *dispatcher) withdraw(b *batch) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b.sent {
		return false
	}
	for i, q := range d.queue {
		if q == b {
			n := len(d.queue) - 1
			copy(d.queue[i:], d.queue[i+1:])
			d.queue[n] = nil
			d.queue = d.queue[:n]
			d.queued -= len(b.requests)
			return true
		}
	}
	return false
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

// expire answers every watched batch whose deadline has passed, or that waits and will not be
// sent in any case, and takes those that have not been sent out of the queue.
func (d *dispatcher) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := wallTime()
	d.rings = time.Time{}
	took := max(d.took, d.average(d.longest(now)))
	kept := d.queue[:0]
	for _, b := range d.queue {
		if d.expireIfDue(b, now, b.least(took)) {
			d.queued -= len(b.requests)
			continue
		}
		kept = append(kept, b)
	}
	clear(d.queue[len(kept):])
	d.queue = kept
	for i := range d.calls {
		for _, b := range d.calls[i].batches {
			d.expireIfDue(b, now, 0)
		}
	}
}

// expireIfDue answers b if its deadline is at most least away. Otherwise it makes the timer ring then.
func (d *dispatcher) expireIfDue(b *batch, now time.Time, least time.Duration) bool {
	if !b.watched || b.outcome == expired {
		return false
	}
	if left := b.deadline.Sub(now); left > least {
		d.ringAt(now.Add(min(left, max(left-least, ringEvery))))
		return false
	}
	b.outcome = expired
	b.done <- struct{}{} // never blocks: a batch is answered once
	return true
}

// close makes the dispatcher refuse further batches.
func (d *dispatcher) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.wake.Broadcast()
}

// drain waits for the calls under way of a closed dispatcher whose goroutines have
// returned: those that callers make themselves.
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
