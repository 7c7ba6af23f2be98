package redisstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"sluice/limiter"
)

// errGivenUp says that a request was given up on while parts of it were under way.
var errGivenUp = errors.New("given up; what was taken is being given back")

// doAll decides requests that span slots, round by round, all at once.
func (c *cluster) doAll(ctx context.Context, calls []*limiter.Call) {
	c.spanning.Add(int64(len(calls)))
	if hasLeft(ctx) {
		for _, call := range calls {
			call.Err = callerLeft(ctx, false)
		}
		return
	}
	requests := make([]*crossSlot, len(calls))
	for i, call := range calls {
		requests[i] = split(c.store.opt.Prefix, &call.Request)
	}
	pending := c.rounds(ctx, requests)
	var unfinished []*crossSlot
	for i, call := range calls {
		if requests[i].done() {
			c.count(requests[i])
			call.Err = requests[i].answer(&call.Result)
			continue
		}
		unfinished = append(unfinished, requests[i])
		call.Err = callerLeft(ctx, true)
	}
	if len(unfinished) > 0 {
		c.finish(unfinished, pending)
	}
}

// rounds drives the requests until all are done or their caller waits no longer. In the second case
// it returns the batches that are still under way; the requests that are not done
// must go to finish.
func (c *cluster) rounds(ctx context.Context, requests []*crossSlot) []*batch {
	for {
		batches := c.gather(requests)
		if len(batches) == 0 {
			return nil
		}
		if hasLeft(ctx) {
			return []*batch{} // nothing of this round has been sent
		}
		if pending := c.await(ctx, batches); len(pending) > 0 {
			return pending
		}
		for _, x := range requests {
			if !x.done() {
				x.advance()
			}
		}
	}
}

// gather encodes what the requests want to send, a batch for each dispatcher.
func (c *cluster) gather(requests []*crossSlot) map[*dispatcher]*batch {
	n := make(map[*dispatcher]int)
	for _, x := range requests {
		for _, p := range x.sending {
			n[c.store.dispatchers[dispatcherOf(p.slot)]]++
		}
	}
	batches := make(map[*dispatcher]*batch, len(n))
	for _, x := range requests {
		for _, p := range x.sending {
			d := c.store.dispatchers[dispatcherOf(p.slot)]
			b := batches[d]
			if b == nil {
				b = newBatch(n[d]) // grows no further: parts point into it
				batches[d] = b
			}
			x.encode(&c.store.names, p, b.add())
			b.isUndo = b.isUndo || x.stage == stageUndo
		}
	}
	return batches
}

// hasLeft reports whether nobody waits for an answer: the caller has left, or his own deadline has passed.
func hasLeft(ctx context.Context) bool {
	bounded, ok := ctx.(limiter.Bounded)
	if !ok {
		return ctx.Err() != nil
	}
	b := bounded.Bound()
	select {
	case <-b.Canceled:
		return true
	default:
	}
	return !b.Hard.IsZero() && !wallTime().Before(b.Hard)
}

// await sends the batches and waits. It returns those still under way when the caller waits no longer; all others have
// been answered, if only with an error. What undoes is bound by MaxWait alone: the caller's deadline, which may be the
// very reason for it, must not cut it off.
func (c *cluster) await(ctx context.Context, batches map[*dispatcher]*batch) (pending []*batch) {
	bounded, _ := ctx.(limiter.Bounded)
	for d, b := range batches {
		if c.store.opt.Trace != nil {
			c.store.trace(ctx, b)
		}
		switch {
		case b.isUndo:
		case bounded != nil:
			bound := bounded.Bound()
			b.bind(&bound)
			b.watched = false // it belongs to the dispatcher until its call has ended
		default:
			b.start = wallTime()
			b.deadline, _ = ctx.Deadline()
		}
		if err := d.submit(b); err != nil {
			b.refuse(err)
			delete(batches, d)
		}
	}
	end := newEnd(ctx)
	defer end.stop()
	for d, b := range batches {
		if end.wait(d, b) {
			if err := b.err(ctx); err != nil {
				b.refuse(err)
			}
			continue
		}
		if !b.isUndo {
			if withdrawn, answering := d.withdraw(b); withdrawn {
				b.refuse(b.withdrawn(ctx, answering))
				continue
			}
		}
		select {
		case <-b.done:
			if err := b.err(ctx); err != nil {
				b.refuse(err)
			}
		default:
			pending = append(pending, b)
		}
	}
	return pending
}

// end is when the caller of a round waits no longer.
type end struct {
	left  <-chan struct{} // closed when the caller has left
	bound limiter.Bound   // its zero value: left alone ends the wait
	timer *time.Timer     // nil without a bound
}

func newEnd(ctx context.Context) *end {
	bounded, ok := ctx.(limiter.Bounded)
	if !ok {
		return &end{left: ctx.Done()}
	}
	e := &end{bound: bounded.Bound()}
	e.left, e.timer = e.bound.Canceled, time.NewTimer(e.bound.Deadline.Sub(wallTime()))
	return e
}

func (e *end) stop() {
	if e.timer != nil {
		e.timer.Stop()
	}
}

// wait reports whether b is answered before the end. After the deadline a caller waits on while the servers of d
// answer: what is sent ends by itself, and the dispatcher ends what waits for its turn.
func (e *end) wait(d *dispatcher, b *batch) bool {
	var rings <-chan time.Time
	if e.timer != nil {
		rings = e.timer.C
	}
	for {
		select {
		case <-b.done:
			return true
		case <-e.left:
			return false
		case <-rings:
		}
		now := wallTime()
		hard := e.bound.Hard
		e.timer.Reset(0) // for the batches that are waited for after this one
		if d.isFailing() || !hard.IsZero() && !now.Before(hard) {
			return false
		}
		next := e.bound.Deadline.Sub(e.bound.Start)
		if !hard.IsZero() {
			next = min(next, hard.Sub(now))
		}
		e.timer.Reset(max(next, ringEvery))
	}
}

// finish undoes, in the background and whatever the caller does, what requests have taken
// whose caller did not wait. It never holds up Close for longer than two round trips may
// take.
func (c *cluster) finish(requests []*crossSlot, pending []*batch) {
	if !c.enter(c.store.opt.MaxQueue) {
		for _, x := range requests {
			for _, p := range x.parts {
				if p.booked != nil || slices.Contains(x.sending, p) && p.takes() {
					c.undoLater(x.undo(p, errGivenUp))
				}
			}
		}
		return
	}
	go func() {
		defer c.leave()
		for _, b := range pending {
			<-b.done
			if err := b.err(context.Background()); err != nil { // its call was never written, and it waited again
				b.refuse(err)
			}
		}
		for _, x := range requests {
			x.giveUp = true
			if len(pending) > 0 {
				x.advance()
			} else {
				x.abandon()
			}
		}
		c.rounds(context.Background(), requests)
		for _, x := range requests {
			c.count(x)
		}
	}()
}

// abandon undoes before a round that has not been sent.
func (x *crossSlot) abandon() {
	x.sending = nil
	if x.err == nil {
		x.err = &limiter.StoreError{Cause: limiter.CauseCanceled, Err: errGivenUp}
	}
	x.startUndo()
}

// count counts what a finished request has undone, and queues what it could not undo.
func (c *cluster) count(x *crossSlot) {
	c.undone.Add(int64(x.undone))
	for _, u := range x.left {
		if c.undoLater(u) {
			continue
		}
		if x.err == nil {
			x.err = &limiter.StoreError{Cause: asStoreError(u.err).Cause, Err: u.err}
		}
		x.err.Unknown = true
	}
}

// enter makes room for one more goroutine of finish, up to most.
func (c *cluster) enter(most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.finishing >= most {
		return false
	}
	c.finishing++
	c.wg.Add(1)
	return true
}

func (c *cluster) leave() {
	c.mu.Lock()
	c.finishing--
	c.mu.Unlock()
	c.wg.Done()
}

// asStoreError gives any error of a request as a StoreError.
func asStoreError(err error) *limiter.StoreError {
	var se *limiter.StoreError
	if errors.As(err, &se) {
		return se
	}
	return &limiter.StoreError{Cause: limiter.CauseInternal, Unknown: true, Err: err}
}
