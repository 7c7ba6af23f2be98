package redisstore

import (
	"context"
	"errors"
	"time"

	"sluice/internal/gather"
	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

// batch is requests that go out together in one script call. Its owner fills it,
// submits it and waits for done; in between it belongs to the dispatcher.
type batch struct {
	requests []script.Request
	done     chan struct{} // one element when it is answered, or will not be
	// alone is where a caller who makes its own call lists its requests.
	alone []*script.Request

	terms
	canceled <-chan struct{} // closed when the caller leaves; may be nil
	watched  bool            // the dispatcher ends it; otherwise the caller does
	isUndo   bool            // undoes what a request across slots has taken: no deadline ends it
	traced   Traced          // nil if it is not recorded
	arrived  time.Time       // when it was, if it is recorded

	// The dispatcher's own until done.
	place   gather.Item[*batch] // in its queue
	isSent  bool
	outcome outcome
}

// outcome says why a batch has no answers.
type outcome uint8

const (
	answered outcome = iota
	expired          // the server does not answer, or the caller's own deadline passed
	noTurn           // it waited for its turn for as long as it may
	left             // its caller left before it was sent
	leftOut          // each of its requests has a separate error
)

func newBatch(n int) *batch {
	return &batch{requests: make([]script.Request, 0, n), done: make(chan struct{}, 1),
		alone: make([]*script.Request, 0, n)}
}

// reset empties b for reuse; its requests keep their buffers.
func (b *batch) reset() {
	b.requests = b.requests[:0]
	b.await(terms{}, nil)
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

// await prepares b for its way through a dispatcher, which the caller ends: he waits until canceled is closed.
func (b *batch) await(t terms, canceled <-chan struct{}) {
	b.terms, b.canceled, b.watched, b.isSent, b.outcome = t, canceled, false, false, answered
}

// bind prepares b for its way through a dispatcher, which that ends by the caller's bound.
func (b *batch) bind(bound *limiter.Bound) {
	b.await(terms{start: bound.Start, deadline: bound.Deadline, turn: bound.Turn, hard: bound.Hard}, bound.Canceled)
	if b.turn.IsZero() {
		b.turn = b.deadline
	}
	if !b.hard.IsZero() && b.hard.Before(b.turn) {
		b.turn = b.hard
	}
	b.watched = true
	for i := range b.requests {
		b.impatient = b.impatient || b.requests[i].Impatient
	}
}

// limit is how long the server has for b from when it has the call, 0 for as long as a call may take.
func (b *batch) limit(now time.Time) time.Duration {
	switch {
	case b.deadline.IsZero() || b.isUndo:
		return 0
	case b.turn.IsZero(): // the caller watches the deadline
		return max(b.deadline.Sub(now), time.Millisecond)
	}
	return b.deadline.Sub(b.start)
}

// refuseImpatient answers the requests that do not wait on, and reports whether none is left.
func (b *batch) refuseImpatient() (none bool) {
	none = true
	for i := range b.requests {
		r := &b.requests[i]
		if r.Impatient && r.Err == nil {
			r.Err = errOverload
		}
		none = none && r.Err != nil
	}
	b.impatient = false
	return none
}

// leaveOut answers requests whose callers have left and late requests, unless the server does not answer. It reports
// whether none is left.
func (b *batch) leaveOut(failing bool) (none bool) {
	none = true
	for i := range b.requests {
		r := &b.requests[i]
		switch {
		case r.Err != nil:
		case r.Gone != nil && r.Gone.Load():
			r.Err = errGone
		case r.Late && !failing:
			r.Err = errOverload
		}
		none = none && r.Err != nil
	}
	return none
}

// err is why a batch that is done has no answers, nil if it has them.
func (b *batch) err(ctx context.Context) error {
	switch b.outcome {
	case noTurn:
		return errOverload
	case expired: // its deadline was the dispatcher's to keep
		return &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: b.isSent, Err: context.DeadlineExceeded}
	case left:
		return callerLeft(ctx, false)
	}
	return nil
}

// unwritten reports whether the call of b was never written, so that b waits for its turn again.
func (b *batch) unwritten() bool {
	for i := range b.requests {
		//nolint:errorlint // the very errors that are set here and by Store.call
		if err := b.requests[i].Err; err != errUnwritten && err != errOverload && err != errGone {
			return false
		}
	}
	return true
}

// again makes b as it was before its call.
func (b *batch) again() {
	b.isSent = false
	for i := range b.requests {
		if r := &b.requests[i]; r.Err == errUnwritten { //nolint:errorlint // the very error that Store.call sets
			r.Err = nil
		}
	}
}

// withdrawn is why a batch has no answers that its caller took out of the queue: the caller left, or the deadline
// passed. answering says that the server has answered others since the batch arrived.
func (b *batch) withdrawn(ctx context.Context, answering bool) error {
	if answering && !errors.Is(ctx.Err(), context.Canceled) {
		return errOverload
	}
	return callerLeft(ctx, false)
}
