package home

import (
	"context"
	"time"

	"sluice/internal/retry"
	"sluice/limiter"
)

const (
	// maxUndos bounds the takes that wait to be given back.
	maxUndos = 10_000
	// undoFirst is the pause of a region after a failure, and before the first try for a take that may still be on its
	// way. It doubles up to undoMost. undoLife is for how long it is tried.
	undoFirst, undoMost = 500 * time.Millisecond, 8 * time.Second
	undoLife            = time.Minute
	// undoSure is for how long a take that may still be on its way is given back again although there was nothing to give
	// back. A region carries out no message that is older than maxAge; the difference is for clocks that differ.
	undoSure = 20 * time.Second
)

// undo is a take that must not stay charged: its request was denied or failed elsewhere, or its answer was lost.
type undo struct {
	req    limiter.Request
	since  time.Time
	unsure bool          // it may not have been charged, or not yet
	pause  time.Duration // of one that is unsure, before the last try
}

// newUndos starts the queue of undos, by their regions, "" for this one.
func (s *Store) newUndos() *retry.Queue[string, *undo] {
	return retry.New(retry.Options[string, *undo]{Most: maxUndos, Batch: maxTogether, First: undoFirst, Last: undoMost,
		Life: undoLife, Try: s.undoAt, Now: s.opt.Now})
}

// undoLater keeps a take to be given back.
func (s *Store) undoLater(to string, req *limiter.Request, unsure bool) {
	now := s.opt.Now()
	u, due := &undo{req: refundOf(req), since: now, unsure: unsure, pause: undoFirst}, now
	if unsure {
		due = now.Add(undoFirst)
	}
	s.undos.Add(to, u, now, due)
}

// refundOf is the request that gives back what another has spent, in memory of its own.
func refundOf(req *limiter.Request) limiter.Request {
	return limiter.Request{Op: limiter.OpRefund, ID: req.ID, Attempt: req.Attempt,
		Asks: append([]limiter.Ask(nil), req.Asks...)}
}

// undoAt gives back takes at one place. It returns when each is to be given back again.
func (s *Store) undoAt(to string, us []*undo) []time.Duration {
	calls, again := make([]limiter.Call, len(us)), make([]time.Duration, len(us))
	for i, u := range us {
		calls[i].Request = u.req
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.opt.Timeout)
	defer cancel()
	asked := s.opt.Now()
	s.at(ctx, to, calls)
	for i, u := range us {
		gave := false
		for k := range calls[i].Result.Limits {
			gave = gave || calls[i].Result.Limits[k].Refunded > 0
		}
		switch {
		case calls[i].Err != nil:
			again[i] = retry.Failed
		case gave || !u.unsure || asked.Sub(u.since) >= undoSure:
			s.undone.Add(1)
		default:
			u.pause = min(2*u.pause, undoMost)
			again[i] = u.pause
		}
	}
	return again
}
