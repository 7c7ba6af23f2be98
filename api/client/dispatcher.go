package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"sluice/internal/gather"
)

const (
	batchPath = "/ratelimit/check/batch"
	// maxCalls is how many calls the dispatcher has in flight.
	maxCalls = 4
	// maxChecks and maxBytes bound a batch; the service accepts no more.
	maxChecks, maxBytes = 1000, 1 << 20
	// maxShared is the longest check, in bytes, that shares a call with others.
	maxShared = 16 << 10
)

// dispatcher decides when checks are sent, and which of them share a call. A check goes at once if none is queued and a
// call may start; its caller then makes the call, unless the last batch had several checks. The others queue. When a
// call may start, a goroutine takes what has queued as one batch.
//
// A call may start when no call is in progress. While others are, up to maxCalls, it may start if it carries at least
// as many checks as they do together. Fewer checks do better in the next call: the more checks share a call, the less
// time the service needs for each.
type dispatcher struct {
	client *Client
	ctx    context.Context // of all batches
	cancel context.CancelFunc
	work   sync.WaitGroup // the goroutines that carry batches

	mu      sync.Mutex
	queue   gather.Queue[*waiter]
	calls   int  // in flight
	carried int  // checks in them
	cutting bool // a goroutine is about to take a batch from the queue
	busy    bool // the last batch had several checks
	closed  bool
}

// waiter is a check whose caller waits for another goroutine to send it.
type waiter struct {
	body  []byte
	place gather.Item[*waiter] // in the queue
	batch *batch               // nil while it is queued
	left  bool                 // the caller waits no longer
	// refused is why the call that carried it decided nothing, if it is to be sent again and was not yet.
	refused error
	// raw or err is the result, once done is closed.
	raw  []byte
	err  error
	done chan struct{}
}

// batch is the checks of one call.
type batch struct {
	waiters []*waiter
	waiting int             // callers who still wait; the last one that leaves cancels the call
	late    bool            // a caller that left had waited for the whole timeout of the client
	ctx     context.Context // of the call
	cancel  context.CancelFunc
}

func (d *dispatcher) start(c *Client) {
	d.client = c
	d.ctx, d.cancel = context.WithCancel(context.Background())
}

func (d *dispatcher) close() {
	d.mu.Lock()
	d.closed = true
	for w := range d.queue.All() {
		d.queue.Remove(&w.place)
		w.err = ErrClosed
		close(w.done)
	}
	d.mu.Unlock()
	d.cancel()
	d.work.Wait()
}

// goes runs f in a goroutine that close waits for; after close it does not.
func (d *dispatcher) goes(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.work.Go(f)
	}
}

// check decides one check, alone or together with others. own is the context of the caller, within the same with the
// client's timeout.
func (d *dispatcher) check(within, own context.Context, body []byte, a *Answer) error {
	p, err := d.client.enter(own)
	switch {
	case err != nil:
		return err
	case p == probe:
		return d.client.permitted(within, own, p, "/ratelimit/check", body, a)
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return ErrClosed
	}
	if d.queue.Len() == 0 && !d.cutting && !d.busy && d.mayStart(1) {
		d.calls, d.carried = d.calls+1, d.carried+1
		d.mu.Unlock()
		defer d.finish(1)
		return d.client.permitted(within, own, p, "/ratelimit/check", body, a)
	}
	w := &waiter{body: body, done: make(chan struct{})}
	d.queue.Push(&w.place, w, 1, len(body)+1)
	d.startCalls()
	d.mu.Unlock()
	select {
	case <-w.done:
	case <-within.Done():
		if err := d.leave(w, within.Err(), own.Err() == nil); err != nil {
			return err
		}
	}
	if w.err != nil {
		return w.err
	}
	return decode(w.raw, a)
}

// mayStart reports whether a call with n checks may start.
func (d *dispatcher) mayStart(n int) bool {
	return d.calls == 0 || d.calls < maxCalls && n >= d.carried
}

// finish ends a call that carried n checks.
func (d *dispatcher) finish(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls, d.carried = d.calls-1, d.carried-n
	d.startCalls()
}

// startCalls has what has queued sent, if a call may start.
func (d *dispatcher) startCalls() {
	if d.queue.Len() > 0 && !d.cutting && d.mayStart(d.queue.Len()) {
		d.cutting = true
		d.work.Go(d.carry)
	}
}

// carry sends one batch. Callers whose last checks were answered together are about to check again together: it lets
// callers that are ready to run go first.
func (d *dispatcher) carry() {
	runtime.Gosched()
	b := &batch{}
	b.ctx, b.cancel = context.WithCancel(d.ctx)
	defer b.cancel()
	d.mu.Lock()
	d.cutting = false
	b.waiters, b.waiting = d.queue.Take(make([]*waiter, 0, min(d.queue.Len(), maxChecks)), maxChecks,
		maxBytes-len(`{"checks":[]}`), nil)
	for _, w := range b.waiters {
		w.batch = b
	}
	if b.waiting == 0 { // all have left
		d.mu.Unlock()
		return
	}
	d.calls, d.carried, d.busy = d.calls+1, d.carried+b.waiting, b.waiting > 1
	d.startCalls()
	d.mu.Unlock()
	defer d.finish(len(b.waiters))
	d.send(b.ctx, b, b.waiters)
}

// leave ends the wait of a caller because of end; late says that the client's timeout ended it. The error is the result
// of its check, nil if there is a result after all. An unsent check is never sent later.
func (d *dispatcher) leave(w *waiter, end error, late bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-w.done:
		return nil
	default:
	}
	if d.queue.Remove(&w.place) {
		return &UnavailableError{end}
	}
	b := w.batch
	w.left, b.late = true, b.late || late
	if b.waiting--; b.waiting == 0 {
		b.cancel()
	}
	if w.refused != nil {
		return w.refused
	}
	return &UnavailableError{end}
}

// send makes one call for the checks of ws, which are all or some of a batch, and gives each its result. If the service
// refuses the batch because of invalid checks, it has charged none: the checks that it names are refused, the others
// are sent again. An overloaded service has charged none either: all are sent again in small calls. Checks whose
// callers have left are not sent.
func (d *dispatcher) send(ctx context.Context, b *batch, ws []*waiter) {
	if ws = d.stillWaiting(ws); len(ws) == 0 {
		return
	}
	results, err := d.call(ctx, b, ws)
	var p *Problem
	if Overloaded(err) && small(bodiesOf(ws)) < len(ws) {
		d.refuse(ws, err)
		for len(ws) > 0 {
			n := small(bodiesOf(ws))
			d.send(ctx, b, ws[:n])
			ws = ws[n:]
		}
		return
	}
	if len(ws) == 1 || !errors.As(err, &p) ||
		p.Status != http.StatusUnprocessableEntity && p.Status != http.StatusBadRequest {
		d.answer(b, ws, results, err)
		return
	}
	var valid []*waiter
	for i, w := range ws {
		if own := p.element(i); own != nil {
			d.answer(b, ws[i:i+1], nil, own)
		} else {
			valid = append(valid, w)
		}
	}
	switch {
	case len(valid) == len(ws): // it names none
		for i := range ws {
			d.send(ctx, b, ws[i:i+1])
		}
	case len(valid) > 0:
		d.send(ctx, b, valid)
	}
}

// refuse notes why the checks of ws, which will be sent again, were not decided. A caller who leaves before gets this
// error, and not that the service is unavailable.
func (d *dispatcher) refuse(ws []*waiter, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range ws {
		w.refused = err
	}
}

// stillWaiting returns the waiters of ws whose callers have not left. Their checks are about to be sent, so their
// earlier errors no longer count.
func (d *dispatcher) stillWaiting(ws []*waiter) []*waiter {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(ws), func(w *waiter) bool {
		w.refused = nil
		return w.left
	})
}

// call makes one call and returns one result for each check.
func (d *dispatcher) call(ctx context.Context, b *batch, ws []*waiter) ([]json.RawMessage, error) {
	if d.ctx.Err() != nil {
		return nil, ErrClosed
	}
	p, err := d.client.enter(ctx)
	if err != nil {
		return nil, err
	}
	results, err := d.exchange(ctx, ws)
	d.mu.Lock()
	left := b.waiting == 0 && !b.late
	d.mu.Unlock()
	d.client.breaker.leave(p, outcomeOf(err, left))
	return results, err
}

func (d *dispatcher) exchange(ctx context.Context, ws []*waiter) ([]json.RawMessage, error) {
	if len(ws) == 1 {
		raw, err := d.client.post(ctx, "/ratelimit/check", ws[0].body)
		return []json.RawMessage{raw}, err
	}
	raw, err := d.client.post(ctx, batchPath, joinChecks(bodiesOf(ws)))
	if err != nil {
		return nil, err
	}
	results, err := splitResults(raw)
	if err == nil && len(results) != len(ws) {
		err = errResults
	}
	return results, err
}

func bodiesOf(ws []*waiter) [][]byte {
	bodies := make([][]byte, len(ws))
	for i, w := range ws {
		bodies[i] = w.body
	}
	return bodies
}

// answer gives each of ws its result: an error for all, or one element of results each.
func (d *dispatcher) answer(b *batch, ws []*waiter, results []json.RawMessage, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, w := range ws {
		if w.err = err; err == nil {
			w.raw = results[i]
		}
		if !w.left {
			b.waiting--
		}
		close(w.done)
	}
}

// joinChecks returns the body of a batch.
func joinChecks(bodies [][]byte) []byte {
	size := len(`{"checks":[]}`)
	for _, b := range bodies {
		size += len(b) + 1
	}
	out := append(make([]byte, 0, size), `{"checks":[`...)
	out = append(out, bytes.Join(bodies, []byte{','})...)
	return append(out, ']', '}')
}

// element returns what a problem of a batch says about the check with index i, as a problem of that check alone; nil if
// it says nothing about it.
func (p *Problem) element(i int) *Problem {
	prefix := "checks[" + strconv.Itoa(i) + "]"
	var own *Problem
	for _, e := range p.Errors {
		field, ok := strings.CutPrefix(e.Field, prefix)
		if !ok {
			continue
		}
		if own == nil {
			own = &Problem{Type: p.Type, Title: p.Title, Status: p.Status, Detail: p.Detail}
		}
		own.Errors = append(own.Errors, FieldError{Field: strings.TrimPrefix(field, "."), Message: e.Message})
	}
	return own
}
