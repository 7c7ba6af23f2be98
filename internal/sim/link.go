package sim

import (
	"context"
	"errors"

	"sluice/limiter"
)

// fate is the outcome of one round trip on the network.
type fate uint8

const (
	arrives   fate = iota
	refused        // certainly not applied
	lost           // not applied, but the node cannot know
	replyLost      // applied, but the node cannot know
	late           // applied after the deadline
)

var fateNames = [...]string{"arrives", "refused", "request lost", "reply lost", "late"}

func (f fate) String() string { return fateNames[f] }

// deadline is the store's part of a check, in virtual ms.
const deadline = 25

// delivery records what really happened to one store call of a node.
type delivery struct {
	req limiter.Request
	res limiter.Result
	err error
}

// link is a node's connection to the shared store. It implements limiter.Store, fails at random,
// and records what really happened for the checks.
type link struct {
	w    *world
	node *node
	sent []delivery // of the node's latest question
}

var _ limiter.Store = (*link)(nil)

// Do sends one request.
func (l *link) Do(_ context.Context, req *limiter.Request, res *limiter.Result) error {
	calls := []limiter.Call{{Request: *req}}
	l.send(calls)
	*res = calls[0].Result
	return calls[0].Err
}

// DoAll sends a pipeline, which has one fate but may be cut in the middle.
func (l *link) DoAll(_ context.Context, calls []limiter.Call) { l.send(calls) }

func (l *link) send(calls []limiter.Call) {
	f, cause := l.w.fate()
	whole := 0 // calls that get their reply
	if f == arrives {
		whole = len(calls)
	} else if f == replyLost && len(calls) > 1 {
		whole = l.w.rng.IntN(len(calls))
	}
	l.w.pass(l.w.rng.Int64N(3))
	if f == late || f == lost {
		l.w.pass(deadline)
	}
	if f != arrives {
		l.w.say("  network: %s (%s), %d of %d calls answered", f, cause, whole, len(calls))
	}
	for i := range calls {
		c := &calls[i]
		c.Result, c.Err = limiter.Result{}, nil
		switch {
		case i < whole:
			c.Err = l.w.apply(&c.Request, &c.Result, true)
		case f == replyLost:
			var unseen limiter.Result
			if err := l.w.apply(&c.Request, &unseen, false); err != nil {
				c.Err = err
				break
			}
			c.Err = &limiter.StoreError{Cause: cause, Unknown: true, Err: errFault}
		case f == late:
			l.w.applyLater(copyRequest(&c.Request))
			c.Err = &limiter.StoreError{Cause: cause, Unknown: true, Err: errFault}
		default:
			c.Err = &limiter.StoreError{Cause: cause, Unknown: f == lost, Err: errFault}
		}
		d := delivery{req: copyRequest(&c.Request), res: c.Result, err: c.Err}
		d.res.Limits = append([]limiter.Decision(nil), c.Result.Limits...)
		l.sent = append(l.sent, d)
	}
}

var errFault = errors.New("injected")

// ownStore is a node's local store with its books.
type ownStore struct {
	node *node
	asks []delivery // of the node's latest question
}

var _ limiter.Store = (*ownStore)(nil)

// Do sends a request to the node's own memory store and its model.
func (s *ownStore) Do(_ context.Context, req *limiter.Request, res *limiter.Result) error {
	err := s.node.w.fail(s.node.bank.apply(req, res, true))
	d := delivery{req: copyRequest(req), res: *res, err: err}
	d.res.Limits = append([]limiter.Decision(nil), res.Limits...)
	if !mirrored(req) {
		s.asks = append(s.asks, d)
	}
	return err
}

// DoAll sends each call separately.
func (s *ownStore) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = s.Do(ctx, &calls[i].Request, &calls[i].Result)
	}
}
