package redisstore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"sluice/limiter"
	"sluice/limiter/across"
	"sluice/limiter/redisstore/script"
)

const (
	// maxUndos is the largest number of undos that wait to be repeated.
	maxUndos = 100_000
	// nameLife is for how long Redis keeps what was booked under a name: NAME_LIFE
	// in script/operations.lua.
	nameLife = 30 * time.Second
	// The pause before undos are repeated, and the longest.
	undoFirst = 20 * time.Millisecond
	undoMost  = time.Second
)

// doAll decides requests that span slots, all at once. The places of package across are slots. What could not be
// undone in time is undone later, whatever the caller does.
func (c *cluster) doAll(ctx context.Context, calls []*limiter.Call) {
	began := wallTime()
	c.spanning.Add(int64(len(calls)))
	c.closing.RLock() // requests in progress may have to undo before the store closes
	defer c.closing.RUnlock()
	if c.closed {
		for _, call := range calls {
			call.Err = &limiter.StoreError{Cause: limiter.CauseClosed, Err: errClosed}
		}
		return
	}
	requests := make([]*across.Request, len(calls))
	for i, call := range calls {
		requests[i] = c.split(&call.Request)
	}
	across.Run(requests, func(round []*across.Part) { c.carry(ctx, round) })
	for i, call := range calls {
		c.undos.Keep(requests[i], began)
		call.Err = requests[i].Answer(&call.Result)
	}
}

// split makes the parts of a request, which is valid and is not kept.
func (c *cluster) split(req *limiter.Request) *across.Request {
	r := across.New(req, across.Options{Place: c.slot, LookFirst: true})
	r.Name = newName()
	if req.Op != limiter.OpRefund && req.Op != limiter.OpSettle && script.HasRecord(req) {
		r.Whole = nameOf(req)
		if req.Attempt == 0 {
			// An attempt must be able to release the records that it relies on: it may still be denied or fail.
			attempt := 1 + rand.Int64N(limiter.MaxExact) //nolint:gosec // unique, not a secret
			for _, p := range r.Parts {
				p.Request.Attempt = attempt
			}
		}
	}
	return r
}

// newName names an attempt at a request that spans slots.
func newName() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64()) //nolint:gosec // unique, not a secret
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// nameOf is the same for requests with one ID and the same keys, bans aside.
func nameOf(req *limiter.Request) string {
	h := sha256.New()
	var n [4]byte
	for i := range req.Asks {
		if req.Asks[i].Limit.Algorithm == limiter.Ban {
			continue
		}
		k := req.Asks[i].Key
		binary.BigEndian.PutUint32(n[:], uint32(len(k))) //nolint:gosec // keys are short
		h.Write(n[:])
		h.Write([]byte(k))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

// carry sends the parts of a round, one batch for each dispatcher.
func (c *cluster) carry(ctx context.Context, round []*across.Part) {
	var count [clusterDispatchers]int
	for _, p := range round {
		count[dispatcherOf(p.Place)]++
	}
	batches, sent := make(map[*dispatcher]*batch, 2), make([]*script.Request, len(round))
	for i, p := range round {
		at := dispatcherOf(p.Place)
		b := batches[c.store.dispatchers[at]]
		if b == nil {
			b = newBatch(count[at]) // grows no further: sent points into it
			batches[c.store.dispatchers[at]] = b
		}
		sent[i] = b.add()
		c.encode(p, sent[i])
		b.isUndo = b.isUndo || p.Step >= across.Undo
	}
	failed := c.store.sendAll(ctx, batches)
	for i, p := range round {
		if err := failed[c.store.dispatchers[dispatcherOf(p.Place)]]; err != nil {
			p.Got = across.Answer{Err: err} // the dispatcher may still use what was sent
			continue
		}
		p.Got = answerOf(p, sent[i])
	}
}

// steps maps steps to operations of the script, except across.Ask.
var steps = [...]limiter.Op{across.Look: limiter.OpPeek, across.Confirm: script.OpCommit, across.Undo: script.OpUndo,
	across.Count: script.OpCount}

// encode fills o with the operation of p in the coming round.
func (c *cluster) encode(p *across.Part, o *script.Request) {
	req, name := p.Request, ""
	if p.Step != across.Ask {
		req.Op, req.Impatient = steps[p.Step], req.Impatient && p.Step < across.Undo
	}
	switch o.Slot = p.Place; req.Op {
	case limiter.OpRefund, limiter.OpSettle, script.OpCount:
		// The first two look for the record as an undivided request would, so that they find records of parts and of
		// whole requests.
		req.Asks = p.Asks()
		o.Encode(&c.store.names, &req)
		return
	case limiter.OpTake, limiter.OpCharge, script.OpCommit, script.OpUndo:
		name = p.Of.Name
	}
	o.EncodePart(&c.store.names, &req, p.Of.Whole, name)
}

// answerOf is the answer that o brought to p.
func answerOf(p *across.Part, o *script.Request) across.Answer {
	if o.Err != nil {
		return across.Answer{Err: o.Err}
	}
	relies := p.Step == across.Confirm || p.Request.Op == limiter.OpCharge && o.Result.Replayed
	a := across.Answer{Result: &o.Result, Firm: o.Committed, Took: relies && p.Request.Attempt != 0}
	for _, b := range o.Booked {
		a.Took = a.Took || b.Weight > 0 && !o.Result.Replayed
	}
	return a
}

// undo is what a part of a request took, or may have taken, and must not keep.
type undo struct {
	req         limiter.Request
	whole, name string
	slot        int
}

// newUndos starts the queue of undos that could not be carried out at once, by dispatcher. After nameLife they cannot
// succeed, because the server has dropped the name.
func (c *cluster) newUndos() *across.Undos[undo] {
	return across.NewUndos(across.UndoOptions[undo]{Most: maxUndos, Batch: c.store.opt.MaxBatch, First: undoFirst,
		Last: undoMost, Life: nameLife, Of: undoOf, Send: c.sendUndos, Now: wallTime})
}

func undoOf(p *across.Part) (dispatcher int, u undo) {
	u = undo{req: p.Request, whole: p.Of.Whole, name: p.Of.Name, slot: p.Place}
	u.req.Op, u.req.Impatient = script.OpUndo, false
	return dispatcherOf(p.Place), u
}

// sendUndos sends undos to one dispatcher.
func (c *cluster) sendUndos(dispatcher int, undos []undo) []across.Answer {
	b, answers := newBatch(len(undos)), make([]across.Answer, len(undos))
	b.isUndo = true
	for i := range undos {
		u, r := &undos[i], b.add()
		r.Slot = u.slot
		r.EncodePart(&c.store.names, &u.req, u.whole, u.name)
	}
	if err := c.store.dispatchers[dispatcher].submit(b); err != nil {
		b.refuse(err)
		b.done <- struct{}{}
	}
	<-b.done // no call takes longer than MaxWait
	for i := range answers {
		answers[i] = across.Answer{Result: &b.requests[i].Result, Err: b.requests[i].Err}
	}
	return answers
}

// finishUndos attempts the undos a last time and counts the remaining ones as lost. Dispatchers must still be open. It
// may be called twice.
func (c *cluster) finishUndos() {
	c.closing.Lock()
	c.closed = true
	c.closing.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), c.store.opt.MaxWait)
	defer cancel()
	c.undos.Close(ctx)
}
