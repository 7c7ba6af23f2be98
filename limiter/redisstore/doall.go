package redisstore

import (
	"context"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

// placed is a call's place in a group.
type placed struct {
	call *limiter.Call
	op   *script.Request
}

// DoAll decides each call by itself, in order, filling Result and Err. It sends
// them in chunks of at most MaxBatch, each after the answer to the one before.
// Takes that span slots of a cluster are decided together, after the others of
// their chunk; what else spans slots is a chunk of its own.
func (s *Store) DoAll(ctx context.Context, calls []limiter.Call) {
	for len(calls) > 0 {
		calls = calls[s.chunk(ctx, calls):]
	}
}

// chunk decides the first calls and returns how many.
func (s *Store) chunk(ctx context.Context, calls []limiter.Call) int {
	groups := make(map[*lane]*group, 1)
	n, keys := 0, 0
	var spanning []*limiter.Call
	where := make([]placed, 0, min(len(calls), s.opt.MaxBatch))
	for n < len(calls) && n < s.opt.MaxBatch && keys < maxKeys {
		c := &calls[n]
		if c.Err = c.Request.Check(); c.Err == nil && s.spans(&c.Request) {
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
		o := s.place(groups, &c.Request)
		keys += len(o.Keys)
		where = append(where, placed{call: c, op: o})
	}
	failed := s.sendAll(ctx, groups)
	for _, p := range where {
		if err := failed[s.laneOf(p.op.Slot)]; err != nil {
			p.call.Err = err
			continue
		}
		if p.call.Err = p.op.Err; p.call.Err == nil {
			copyResult(&p.call.Result, &p.op.Result)
		}
	}
	for l, g := range groups {
		if failed[l] == nil { // else it may still be in use
			s.batches.Put(g)
		}
	}
	if len(spanning) > 0 {
		s.drive(ctx, spanning)
	}
	return n
}

// place packs a request, which is valid, into the group of its lane.
func (s *Store) place(groups map[*lane]*group, req *limiter.Request) *script.Request {
	slot := 0
	if s.clustered() {
		slot = slotOf(s.opt.Prefix + string(req.Asks[0].Key))
	}
	l := s.laneOf(slot)
	g := groups[l]
	if g == nil {
		var ok bool
		if g, ok = s.batches.Get().(*group); ok {
			g.reset()
		} else {
			g = newGroup(s.opt.MaxBatch)
		}
		groups[l] = g
	}
	o := g.add() // never grows beyond its capacity, so the pointer stays good
	o.Encode(&s.names, req)
	o.Slot = slot
	return o
}

// sendAll sends the groups of different lanes at once and waits for them all.
// It returns the lanes that failed.
func (s *Store) sendAll(ctx context.Context, groups map[*lane]*group) map[*lane]error {
	failed := make(map[*lane]error)
	if ctx.Err() != nil {
		for l := range groups {
			failed[l] = given(ctx, false)
		}
		return failed
	}
	b, _ := ctx.(limiter.Bounded)
	for l, g := range groups {
		g.deadline, g.bounded = ctx.Deadline()
		if b != nil {
			g.within = g.deadline.Sub(b.Bound().Start)
		}
		if err := l.submit(g); err != nil {
			failed[l] = err
		}
	}
	for l, g := range groups {
		if failed[l] != nil {
			continue
		}
		if err := l.wait(ctx, ctx.Done(), g); err != nil {
			failed[l] = err
		}
	}
	return failed
}
