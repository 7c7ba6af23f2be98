package redisstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"sluice/internal/retry"
	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

const (
	// maxUndos bounds the undos that wait to be repeated.
	maxUndos = 100_000
	// nameLife is for how long Redis keeps what was booked under a name: NAME_LIFE
	// in script/operations.lua.
	nameLife = 30 * time.Second
	// The pause before undos are repeated, and the longest.
	undoFirst = 20 * time.Millisecond
	undoMost  = time.Second
)

// newName names an attempt at a request that spans slots.
func newName() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64()) //nolint:gosec // unique, not a secret
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// undo is what a part of a request took, or may have taken, and must not keep.
type undo struct {
	req   limiter.Request
	whole string
	name  string
	slot  int
	since time.Time
	taken bool  // certainly
	err   error // why it could not be done at once
}

// undo makes the undo of part p.
func (x *crossSlot) undo(p *part, err error) *undo {
	return &undo{
		req: limiter.Request{Op: script.OpUndo, ID: x.id, Attempt: x.tried, Asks: p.asks}, whole: x.whole,
		name: p.name, slot: p.slot,
		since: x.since, taken: p.booked != nil, err: err,
	}
}

// gaveBack reports whether an answer gave back anything.
func gaveBack(res *limiter.Result) bool {
	for i := range res.Limits {
		if res.Limits[i].Refunded > 0 {
			return true
		}
	}
	return false
}

// newUndos starts the queue of undos that could not be carried out at once, by dispatcher. After nameLife it is
// hopeless: the name is forgotten.
func (c *cluster) newUndos() *retry.Queue[int, *undo] {
	return retry.New(retry.Options[int, *undo]{Most: maxUndos, Batch: c.store.opt.MaxBatch, First: undoFirst,
		Last: undoMost, Life: nameLife, Try: c.tryUndos, Now: wallTime})
}

// undoLater keeps u to be repeated, or counts it as lost.
func (c *cluster) undoLater(u *undo) bool {
	return c.undos.Add(dispatcherOf(u.slot), u, u.since, wallTime().Add(undoFirst))
}

// tryUndos tries undos of one dispatcher and returns which of them failed.
func (c *cluster) tryUndos(dispatcher int, undos []*undo) []time.Duration {
	b, again := newBatch(len(undos)), make([]time.Duration, len(undos))
	b.isUndo = true
	for _, u := range undos {
		r := b.add()
		r.Slot = u.slot
		r.EncodePart(&c.store.names, &u.req, u.whole, u.name)
	}
	if err := c.store.dispatchers[dispatcher].submit(b); err != nil {
		b.refuse(err)
		b.done <- struct{}{}
	}
	<-b.done // no call takes longer than MaxWait
	for i, u := range undos {
		switch r := &b.requests[i]; {
		case r.Err != nil:
			again[i] = retry.Failed
		case u.taken || gaveBack(&r.Result):
			c.undone.Add(1)
		}
	}
	return again
}

// finishUndos waits for the rounds that go on without their callers, tries the undos a last time, and counts what is
// left as lost. Dispatchers must still be open. It may be called twice.
func (c *cluster) finishUndos() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), c.store.opt.MaxWait)
	defer cancel()
	c.undos.Close(ctx)
}
