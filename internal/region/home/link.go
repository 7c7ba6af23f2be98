package home

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/gather"
	"sluice/internal/region"
	"sluice/internal/tick"
	"sluice/limiter"
)

const (
	// maxMessages is the largest number of messages in transit to one region. Calls that arrive when it is reached wait
	// and share a message.
	maxMessages = 32
	// paced is the number of messages in transit from which the next one waits for a part of a round trip, at most
	// maxPause. Otherwise all messages would leave at once and be answered at once, and calls would wait for a second
	// round trip.
	paced, maxPause = maxMessages / 2, 20 * time.Millisecond
	// maxWaiting is the largest number of calls that wait for a message; further calls are refused.
	maxWaiting = 10_000
	// maxTogether is how many calls go in one message unless one batch has more, and enough the length in bytes from which
	// a message has no further batch.
	maxTogether, enough = 256, 64 << 10
	// trusted is for how long an answer shows that a region which sends no updates is there nevertheless, and the least
	// time between two calls that try it while it has not answered.
	trusted = time.Second
)

// Reasons why calls that were sent to another region have failed; see Options.Observe.
const (
	ReasonCutOff     = "cut_off"    // the region is cut off: not sent
	ReasonBusy       = "busy"       // too many calls wait, here or there: not sent, or not carried out
	ReasonTimeout    = "timeout"    // no answer in time
	ReasonLeft       = "left"       // the caller left before the answer
	ReasonConnection = "connection" // no connection, or it broke
	ReasonRefused    = "refused"    // the region does not take messages of this one: token, settings, version
	ReasonAnswer     = "answer"     // the answer was not one
	ReasonStore      = "store"      // the counter store of the region could not decide
	ReasonRule       = "rule"       // the region does not have the rule, or has it with another span or algorithm
)

// Reasons returns all of them.
func Reasons() []string {
	return []string{ReasonCutOff, ReasonBusy, ReasonTimeout, ReasonLeft, ReasonConnection, ReasonRefused, ReasonAnswer,
		ReasonStore, ReasonRule}
}

// batch is some calls of one caller on their way. It has its own memory.
type batch struct {
	body  []byte // of all its calls
	asks  []int  // of each
	until time.Time
	calls []limiter.Call // the answers
	done  chan struct{}
	place gather.Item[*batch] // in link.waiting
}

// link is the way to another region. It is safe for concurrent use.
type link struct {
	*region.Link

	store *Store
	// good is when the region has last answered, and tried when a call last tried whether it is there, in ns since the
	// start of the store.
	good, tried atomic.Int64
	trip        atomic.Int64 // how long the last message that was answered took, in ns

	shown struct { // what became of the calls
		sync.Mutex
		region.Calls
	}

	mu       sync.Mutex
	waiting  gather.Queue[*batch]
	messages int  // under way, or about to be
	pausing  bool // one of them takes what comes in the next moment
	closed   bool
}

// do carries out calls in the other region and sets Result and Err of each.
func (l *link) do(ctx context.Context, calls []limiter.Call) {
	for len(calls) > maxCalls { // a batch of checks has fewer
		l.do(ctx, calls[:maxCalls])
		calls = calls[maxCalls:]
	}
	if err := ctx.Err(); err != nil { // which says nothing about the region
		for i := range calls {
			calls[i].Err, _ = l.left(err, false)
		}
		return
	}
	start := l.store.opt.Now()
	err, reason := l.send(ctx, calls)
	took := l.store.opt.Now().Sub(start)
	switch {
	case err == nil:
		l.store.opt.Trouble.Clear(homeFailing, l.Name)
	case err.Cause != limiter.CauseCanceled:
		l.store.opt.Trouble.Note(homeFailing, l.Name, err, "reason", reason)
	}
	for i := range calls {
		if err != nil {
			se := limiter.StoreError{Cause: homeCause(err.Cause), Unknown: err.Unknown, Err: err.Err}
			se.Unknown = se.Unknown && calls[i].Request.Op != limiter.OpPeek
			calls[i].Err = &se
		}
		why := reason
		if err == nil && calls[i].Err != nil {
			why = ReasonStore
			var se *limiter.StoreError
			if errors.As(calls[i].Err, &se) {
				se.Cause = homeCause(se.Cause)
			}
			if errors.Is(calls[i].Err, errForeign) {
				why = ReasonRule
			}
		}
		l.note(why)
		l.store.opt.Observe(l.Name, why, took)
	}
}

// note remembers what became of a call. A caller that left says nothing about the region.
func (l *link) note(why string) {
	l.shown.Lock()
	defer l.shown.Unlock()
	switch why {
	case ReasonLeft:
		return
	case "":
		l.shown.Decided++
		l.shown.Since = time.Time{}
	default:
		if l.shown.Failed++; l.shown.Failing == "" {
			l.shown.Since = l.store.opt.Now()
		}
	}
	l.shown.Failing = why
}

// homeCause is the cause of a failed call for this region: nothing is wrong with its own counter store. The causes for
// callers that have left and for overload do not change: the home region answers, and no fail mode may decide.
func homeCause(c limiter.Cause) limiter.Cause {
	if c == limiter.CauseCanceled || c == limiter.CauseOverload {
		return c
	}
	return limiter.CauseHome
}

// send sends calls and waits for their answers. An error concerns all calls.
func (l *link) send(ctx context.Context, calls []limiter.Call) (*limiter.StoreError, string) {
	if l.isCutOff() {
		return &limiter.StoreError{Cause: limiter.CauseConnection,
			Err: fmt.Errorf("the home region %s is cut off", l.Name)}, ReasonCutOff
	}
	b := &batch{done: make(chan struct{}), calls: make([]limiter.Call, len(calls)), asks: make([]int, len(calls))}
	for i := range calls {
		b.body = appendCall(b.body, &calls[i].Request)
		b.asks[i] = len(calls[i].Request.Asks)
	}
	b.until = time.Now().Add(l.store.opt.Timeout) //nolint:forbidigo // a deadline of sockets
	if own, ok := ctx.Deadline(); ok && own.Before(b.until) {
		b.until = own
	}
	if len(b.body) > maxBody-1024 {
		return &limiter.StoreError{Cause: limiter.CauseBusy, Err: errors.New("the request is too large for a message")},
			ReasonBusy
	}
	if !l.submit(b) {
		return &limiter.StoreError{Cause: limiter.CauseBusy,
			Err: fmt.Errorf("too many calls wait for the home region %s", l.Name)}, ReasonBusy
	}
	ctx, cancel := context.WithDeadline(ctx, b.until)
	defer cancel()
	select {
	case <-b.done:
	case <-ctx.Done():
		return l.left(ctx.Err(), l.drop(b))
	}
	for i := range calls {
		calls[i].Result, calls[i].Err = b.calls[i].Result, b.calls[i].Err
	}
	var failure *messageError
	if errors.As(b.calls[0].Err, &failure) {
		return &failure.StoreError, failure.reason
	}
	return nil, ""
}

// isCutOff reports whether to send nothing, because the region sends no updates and does not answer. Now and then a
// call is sent nevertheless: updates may be late, or lost one way only.
func (l *link) isCutOff() bool {
	if !l.store.opt.CutOff(l.Name) {
		return false
	}
	now, good, tried := l.store.since(), l.good.Load(), l.tried.Load()
	if good > 0 && now-good < int64(trusted) {
		return false
	}
	return tried > 0 && now-tried < int64(trusted) || !l.tried.CompareAndSwap(tried, now)
}

// left is the error of calls whose caller does not wait any more.
func (l *link) left(err error, sent bool) (*limiter.StoreError, string) {
	cause, reason := limiter.CauseTimeout, ReasonTimeout
	if errors.Is(err, context.Canceled) {
		cause, reason = limiter.CauseCanceled, ReasonLeft
	}
	return &limiter.StoreError{Cause: cause, Unknown: sent,
		Err: fmt.Errorf("waiting for the home region %s: %w", l.Name, err)}, reason
}

// submit queues a batch and makes sure that somebody sends it. It reports whether there is room.
func (l *link) submit(b *batch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.waiting.Len()+len(b.asks) > maxWaiting {
		return false
	}
	l.waiting.Push(&b.place, b, len(b.asks), len(b.body))
	if l.messages < maxMessages && !l.pausing {
		if l.messages++; l.messages > paced {
			l.pausing = true
			l.store.wg.Go(l.pause)
		} else {
			l.store.wg.Go(l.work)
		}
	}
	return true
}

// drop takes back a batch whose caller has left, and reports whether it may have been sent.
func (l *link) drop(b *batch) (sent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.waiting.Remove(&b.place)
}

// pause sends messages after a moment.
func (l *link) pause() {
	length := maxPause
	if trip := time.Duration(l.trip.Load()); trip > 0 {
		length = min(trip/paced, maxPause)
	}
	tick.Wait(l.store.ctx, length)
	l.mu.Lock()
	l.pausing = false
	l.mu.Unlock()
	l.work()
}

// work sends messages until nothing waits.
func (l *link) work() {
	for {
		l.mu.Lock()
		together, _ := l.waiting.Take(nil, maxTogether, enough, nil)
		if len(together) == 0 {
			l.messages--
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		l.post(together)
		for _, b := range together {
			close(b.done)
		}
	}
}

// messageError is why a whole message has no answers.
type messageError struct {
	limiter.StoreError

	reason string
}

// Error returns the text of the store's error.
func (e *messageError) Error() string { return e.StoreError.Error() }

// post sends one message and fills the answers of its batches.
func (l *link) post(together []*batch) {
	var until time.Time
	var asks []int
	for _, b := range together {
		asks = append(asks, b.asks...)
		if b.until.After(until) {
			until = b.until
		}
	}
	ctx, cancel := context.WithDeadline(l.store.ctx, until)
	defer cancel()
	head := region.Head{From: l.store.opt.Self, To: l.Name, Prefix: l.store.opt.Prefix, At: l.store.opt.Now().UnixMilli()}
	if set := l.store.opt.Sets.Load(); set != nil {
		head.Set = set.Version()
	}
	body := appendStart(&head, time.Until(until), len(asks)) //nolint:forbidigo // a deadline of sockets
	for _, b := range together {
		body = append(body, b.body...)
	}
	calls := make([]limiter.Call, len(asks))
	sent := l.store.since()
	failure := l.tryAddresses(ctx, body, asks, calls)
	if now := l.store.since(); failure == nil {
		l.good.Store(now)
		l.trip.Store(now - sent)
	} else {
		l.good.Store(0)
	}
	for _, b := range together {
		n := copy(b.calls, calls)
		if calls = calls[n:]; failure != nil {
			for i := range b.calls {
				b.calls[i].Err = failure
			}
		}
	}
}

// tryAddresses sends a message to the address in use. While the message has certainly not arrived, or was refused, it
// tries the next address, which repeats nothing. A node with outdated settings may refuse a message that another node
// accepts.
func (l *link) tryAddresses(ctx context.Context, body []byte, asks []int, calls []limiter.Call) *messageError {
	for tries := 1; ; tries++ {
		node := l.Node()
		stops, failure := l.exchange(ctx, node, body, asks, calls)
		if stops || failure != nil && failure.reason != ReasonBusy {
			l.Leave(node)
		}
		if failure == nil {
			return nil
		}
		again := failure.reason == ReasonConnection || failure.reason == ReasonRefused
		if failure.Unknown || !again || tries >= len(l.Addresses) || ctx.Err() != nil {
			return failure
		}
	}
}

// exchange sends a message to one node and reads the answers. stops reports that the node closes the connection, as
// one that is about to stop does: soon it accepts no new ones, and to wait for that would cost a check its time.
func (l *link) exchange(ctx context.Context, node uint32, body []byte, asks []int,
	calls []limiter.Call) (stops bool, failure *messageError) {
	sent := atomic.Bool{}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	fail := func(cause limiter.Cause, reason string, unknown bool, err error) *messageError {
		return &messageError{limiter.StoreError{Cause: cause, Unknown: unknown,
			Err: fmt.Errorf("the home region %s: %w", l.Name, err)}, reason}
	}
	reply, err := l.Post(ctx, node, MediaType, body, maxBody+1)
	switch {
	case err != nil && ctx.Err() != nil:
		return false, fail(limiter.CauseTimeout, ReasonTimeout, sent.Load(), ctx.Err())
	case err != nil:
		return false, fail(limiter.CauseConnection, ReasonConnection, sent.Load(), err)
	case reply.Status != http.StatusOK:
		return reply.Closes, refusal(&reply, fail)
	case !decodeAnswers(reply.Body, asks, calls):
		return reply.Closes, fail(limiter.CauseInternal, ReasonAnswer, true, errors.New("its answer is not one"))
	}
	return reply.Closes, nil
}

// refusal is the error of an answer with another status. If a proxy sent the answer, and not Sluice, it is unknown
// whether the message has arrived.
func refusal(reply *region.Reply, fail func(limiter.Cause, string, bool, error) *messageError) *messageError {
	err := reply.Refusal()
	switch {
	case !reply.Own, reply.Status == http.StatusInternalServerError:
		return fail(limiter.CauseInternal, ReasonAnswer, true, err)
	case reply.Status == http.StatusUnauthorized, reply.Status == http.StatusForbidden:
		return fail(limiter.CauseAuth, ReasonRefused, false, err)
	case reply.Status == http.StatusTooManyRequests, reply.Status == http.StatusServiceUnavailable:
		return fail(limiter.CauseBusy, ReasonBusy, false, err)
	}
	return fail(limiter.CauseInternal, ReasonRefused, false, err)
}

// close refuses further batches.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
}
