package redisstore

import (
	"context"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

// placed is a call's place in a batch.
type placed struct {
	call    *limiter.Call
	request *script.Request
}

// DoAll decides the calls independently, in order, filling Result and Err. It sends chunks of at most MaxBatch calls,
// each after the answer to the previous chunk. Takes that span slots of a cluster are decided together, after the other
// calls of their chunk; each other operation that spans slots is a separate chunk.
func (s *Store) DoAll(ctx context.Context, calls []limiter.Call) {
	narrow := widen(calls)
	for at := 0; at < len(calls); {
		at += s.chunk(ctx, calls[at:])
	}
	for i, req := range narrow {
		calls[i].Request = req
		if calls[i].Err == nil {
			limiter.Narrow(&req, &calls[i].Result)
		}
	}
}

// widen replaces each look at a limit that has a Former by its limiter.WideLook, and returns the original requests.
func widen(calls []limiter.Call) (narrow map[int]limiter.Request) {
	for i := range calls {
		req := &calls[i].Request
		if req.Op != limiter.OpPeek || req.Check() != nil {
			continue
		}
		if wide, ok := limiter.WideLook(req); ok {
			if narrow == nil {
				narrow = make(map[int]limiter.Request)
			}
			narrow[i], *req = *req, wide
		}
	}
	return narrow
}

// chunk decides the first calls and returns how many.
func (s *Store) chunk(ctx context.Context, calls []limiter.Call) int {
	batches := make(map[*dispatcher]*batch, 1)
	n, keys := 0, 0
	var spanning []*limiter.Call
	where := make([]placed, 0, min(len(calls), s.opt.MaxBatch))
	for n < len(calls) && n < s.opt.MaxBatch && keys < maxKeys {
		c := &calls[n]
		if c.Err = c.Request.Check(); c.Err == nil && s.cluster != nil && s.cluster.spans(&c.Request) {
			if c.Request.Op != limiter.OpTake && n > 0 {
				break
			}
			keys += len(c.Request.Asks)
			spanning = append(spanning, c)
			if n++; c.Request.Op != limiter.OpTake {
				break
			}
			continue
		}
		if len(spanning) > 0 && c.Request.Op != limiter.OpTake {
			break
		}
		n++
		if c.Err != nil {
			continue
		}
		r := s.place(batches, &c.Request)
		keys += len(r.Keys)
		where = append(where, placed{call: c, request: r})
	}
	failed := s.sendAll(ctx, batches)
	for _, p := range where {
		if err := failed[s.dispatchers[dispatcherOf(p.request.Slot)]]; err != nil {
			p.call.Err = err
			continue
		}
		if p.call.Err = p.request.Err; p.call.Err != nil {
			if s.cluster != nil && divided(&p.call.Request, p.call.Err) {
				p.call.Err = s.cluster.apart(ctx, &p.call.Request, &p.call.Result)
			}
		} else {
			from, to := &p.request.Result, &p.call.Result
			to.Allowed, to.Replayed, to.At = from.Allowed, from.Replayed, from.At
			to.Limits = append(to.Limits[:0], from.Limits...)
		}
	}
	for d, b := range batches {
		if failed[d] == nil { // a failed batch may still be in use
			s.batches.Put(b)
		}
	}
	if len(spanning) > 0 {
		s.cluster.doAll(ctx, spanning)
	}
	return n
}

// place encodes a request, which is valid, into the batch of its dispatcher.
func (s *Store) place(batches map[*dispatcher]*batch, req *limiter.Request) *script.Request {
	slot := 0
	if s.cluster != nil {
		slot = s.cluster.slot(&req.Asks[0])
	}
	d := s.dispatchers[dispatcherOf(slot)]
	b := batches[d]
	if b == nil {
		b, _ = s.batches.Get().(*batch)
		b.reset()
		batches[d] = b
	}
	r := b.add() // never grows beyond its capacity, so the pointer stays good
	r.Encode(&s.names, req)
	r.Slot = slot
	return r
}

// sendAll sends the batches of different dispatchers at once and waits for them all. It returns the errors of the
// failed ones.
func (s *Store) sendAll(ctx context.Context, batches map[*dispatcher]*batch) map[*dispatcher]error {
	if hasLeft(ctx) {
		failed := make(map[*dispatcher]error, len(batches))
		for d := range batches {
			failed[d] = callerLeft(ctx, false)
		}
		return failed
	}
	if len(batches) == 1 {
		for d, b := range batches {
			if err := s.send(ctx, d, b); err != nil {
				return map[*dispatcher]error{d: err}
			}
		}
		return nil
	}
	failed := make(map[*dispatcher]error)
	bounded, _ := ctx.(limiter.Bounded)
	for d, b := range batches {
		if s.opt.Trace != nil {
			s.trace(ctx, b)
		}
		if bounded == nil {
			deadline, _ := ctx.Deadline()
			b.await(terms{start: wallTime(), deadline: deadline}, ctx.Done())
		} else {
			bound := bounded.Bound()
			b.bind(&bound)
		}
		if err := d.submit(b); err != nil {
			failed[d] = err
		}
	}
	for d, b := range batches {
		if failed[d] != nil {
			continue
		}
		if err := d.wait(ctx, b.canceled, b); err != nil {
			failed[d] = err
		}
	}
	return failed
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
