package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/rules"
)

// unsureQueue is a queue whose answers can be lost.
type unsureQueue struct {
	decide.Queue
	put      error         // what a Put says
	arrives  bool          // a Put is carried out
	withdraw chan struct{} // a withdrawal waits until it is closed

	mu    sync.Mutex
	tries int
}

func (q *unsureQueue) Put(ctx context.Context, rule int64, it decide.QueueItem, b decide.QueueBounds) (string, error) {
	if it.Nonce == "" {
		return "", errors.New("a Put without a nonce")
	}
	ticket, err := "", error(nil)
	if q.arrives {
		ticket, err = q.Queue.Put(ctx, rule, it, b)
	}
	return ticket, errors.Join(err, q.put)
}

func (q *unsureQueue) Withdraw(ctx context.Context, rule int64, nonce string) (string, error) {
	q.mu.Lock()
	q.tries++
	tries := q.tries
	q.mu.Unlock()
	if q.withdraw != nil {
		select {
		case <-q.withdraw:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	if tries == 1 { // the first is lost too
		return "", decide.ErrQueueUnavailable
	}
	return q.Queue.Withdraw(ctx, rule, nonce)
}

// errAnswerLost is the error of a Put whose answer is lost.
var errAnswerLost = fmt.Errorf("%w: %w", decide.ErrQueueUnsure, decide.ErrQueueUnavailable)

// unsure is a server with a rule that defers, whose user 42 has nothing left.
func unsure(t *testing.T, q *unsureQueue, edit ...func(*decide.CheckerOptions, *Deps)) *fixture {
	t.Helper()
	with := append([]func(*decide.CheckerOptions, *Deps){withQueue(t, &q.Queue), func(o *decide.CheckerOptions, _ *Deps) {
		o.Timeout, o.Deferred, o.Withdrawals = patience, q, decide.NewWithdrawals(q)
		t.Cleanup(o.Withdrawals.Close)
	}}, edit...)
	f := newFixture(t, []rules.Rule{deferringRule("mails", 1)}, with...)
	f.check(`{"user":"42"}`)
	return f
}

func (f *fixture) depth() int64 { return f.release("mails?max=0").Depth }

func (f *fixture) counted(what string) {
	f.t.Helper()
	if !slices.Contains(f.seen.deferrals, what) {
		f.t.Errorf("counted %q, want %q among them", f.seen.deferrals, what)
	}
}

func TestDefer_ADenialIsNotInTheQueue(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		f := unsure(t, &unsureQueue{put: errAnswerLost, arrives: arrives})
		for _, body := range []string{`{"user":"42","payload":"x"}`, `{"user":"42","payload":"x","request_id":"r"}`} {
			r := f.check(body)
			if r.Status != http.StatusTooManyRequests || r.NotDeferred != "unavailable" || r.Deferred != "" ||
				f.depth() != 0 {
				t.Errorf("%s: %+v, with %d in the queue", body, r, f.depth())
			}
		}
		f.counted("mails refused unavailable 1")
	}
}

func TestDefer_WhatCannotBeWithdrawnInTimeIsUnknown(t *testing.T) {
	q := &unsureQueue{put: errAnswerLost, arrives: true, withdraw: make(chan struct{})}
	f := unsure(t, q, func(o *decide.CheckerOptions, _ *Deps) { o.Timeout = 10 * time.Millisecond })
	r := f.check(`{"user":"42","payload":"x"}`)
	if r.Status != http.StatusAccepted || r.Allowed || r.Deferred != "unknown" || r.Ticket != "" || r.NotDeferred != "" {
		t.Errorf("got %+v", r)
	}
	if _, has := r.Body["ticket"]; has || r.Body["status"] != float64(202) || r.Headers["Retry-After"] != "" {
		t.Errorf("headers %v, body %v", r.Headers, r.Body)
	}
	f.counted("mails unknown  1")
	f.withdrawn(q)
}

// withdrawn lets withdrawals go on, and wants them to empty the queue after the answer.
func (f *fixture) withdrawn(q *unsureQueue) {
	f.t.Helper()
	if f.depth() != 1 {
		f.t.Errorf("%d in the queue before the withdrawal", f.depth())
	}
	close(q.withdraw)
	ctx, cancel := context.WithTimeout(f.t.Context(), 20*time.Second)
	defer cancel()
	for tick := time.NewTicker(5 * time.Millisecond); f.depth() > 0; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.t.Fatal("it was never withdrawn")
		}
	}
}

func TestDefer_WhatAnotherPutOrARunnerHasStaysDeferred(t *testing.T) {
	q := &unsureQueue{arrives: true}
	f := unsure(t, q)
	const body = `{"user":"42","payload":"x","request_id":"r"}`
	first := f.check(body)
	q.put = errAnswerLost
	if again := f.check(body); first.Ticket == "" || again.Ticket != first.Ticket || again.Status != http.StatusAccepted {
		t.Errorf("the ticket of %+v was taken back: %+v", first, again)
	}
	if f.depth() != 1 {
		t.Errorf("%d in the queue", f.depth())
	}
}

func TestDefer_WithdrawalsEndWithTheNode(t *testing.T) {
	q := &unsureQueue{put: errAnswerLost, arrives: true, withdraw: make(chan struct{})}
	var ends *decide.Withdrawals
	f := unsure(t, q, func(o *decide.CheckerOptions, _ *Deps) {
		o.Timeout, ends = 10*time.Millisecond, o.Withdrawals
	})
	f.check(`{"user":"42","payload":"x"}`)
	ends.Close() // returns although the withdrawal still waits
	if r := f.check(`{"user":"42","payload":"y"}`); r.Status != http.StatusAccepted || r.Deferred != "unknown" {
		t.Errorf("after the end: %+v", r)
	}
}
