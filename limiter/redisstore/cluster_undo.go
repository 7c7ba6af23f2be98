package redisstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

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
	err   error // of the last try
}

// undo makes the undo of part p; err is why it could not be done at once.
func (x *crossSlot) undo(p *part, err error) *undo {
	return &undo{
		req: limiter.Request{Op: script.OpUndo, ID: x.id, Attempt: x.tried, Asks: p.asks}, whole: x.whole,
		name: p.name, slot: p.slot,
		since: x.since, taken: p.booked != nil, err: err,
	}
}

// hopeless reports whether a further try could not do it: the name is forgotten.
func (u *undo) hopeless(now time.Time) bool { return now.Sub(u.since) >= nameLife }

// gaveBack reports whether an answer gave back anything.
func gaveBack(res *limiter.Result) bool {
	for i := range res.Limits {
		if res.Limits[i].Refunded > 0 {
			return true
		}
	}
	return false
}

// undos are those that could not be carried out at once. One goroutine repeats them
// until each is confirmed or hopeless.
type undos struct {
	mu     sync.Mutex
	lists  [clusterDispatchers][]*undo // by dispatcher
	n      int
	closed bool
	wake   chan struct{} // of size 1
	stop   chan struct{}
	done   chan struct{}
}

// add keeps u to be repeated and reports whether there is room.
func (us *undos) add(dispatcher int, u *undo) bool {
	us.mu.Lock()
	defer us.mu.Unlock()
	if us.closed || us.n >= maxUndos {
		return false
	}
	us.lists[dispatcher] = append(us.lists[dispatcher], u)
	us.n++
	select {
	case us.wake <- struct{}{}:
	default:
	}
	return true
}

func (us *undos) pending() int64 {
	us.mu.Lock()
	defer us.mu.Unlock()
	return int64(us.n)
}

// some returns at most n undos of a dispatcher, the oldest first. They stay pending.
func (us *undos) some(dispatcher, n int) []*undo {
	us.mu.Lock()
	defer us.mu.Unlock()
	list := us.lists[dispatcher]
	n = min(n, len(list))
	us.lists[dispatcher] = list[n:]
	if n == len(list) {
		us.lists[dispatcher] = nil
	}
	return list[:n:n]
}

// back puts an undo that was tried and failed behind the others.
func (us *undos) back(dispatcher int, u *undo) {
	us.mu.Lock()
	defer us.mu.Unlock()
	us.lists[dispatcher] = append(us.lists[dispatcher], u)
}

func (us *undos) ended(n int) {
	us.mu.Lock()
	defer us.mu.Unlock()
	us.n -= n
}

// undoLater keeps u to be repeated, or counts it as lost.
func (c *cluster) undoLater(u *undo) bool {
	if !u.hopeless(wallTime()) && c.undos.add(dispatcherOf(u.slot), u) {
		return true
	}
	c.lost.Add(1)
	return false
}

// repeatUndos is the goroutine of undos.
func (c *cluster) repeatUndos() {
	us := &c.undos
	defer close(us.done)
	for {
		select {
		case <-us.stop:
			return
		case <-us.wake:
		}
		for pause := undoFirst; us.pending() > 0; {
			timer := time.NewTimer(pause)
			select {
			case <-us.stop:
				timer.Stop()
				return
			case <-timer.C:
			}
			if pause = min(2*pause, undoMost); c.undoAgain() > 0 {
				pause = undoFirst
			}
		}
	}
}

// undoAgain tries one batch of each dispatcher and returns how many were confirmed.
func (c *cluster) undoAgain() (confirmed int) {
	var tried [clusterDispatchers][]*undo
	var batches [clusterDispatchers]*batch
	for i, d := range c.store.dispatchers {
		for _, u := range c.undos.some(i, c.store.opt.MaxBatch) {
			if u.hopeless(wallTime()) {
				c.lost.Add(1)
				c.undos.ended(1)
				continue
			}
			tried[i] = append(tried[i], u)
		}
		if len(tried[i]) == 0 {
			continue
		}
		b := newBatch(len(tried[i]))
		b.isUndo = true
		for _, u := range tried[i] {
			r := b.add()
			r.Slot = u.slot
			r.EncodePart(&c.store.names, &u.req, u.whole, u.name)
		}
		if err := d.submit(b); err != nil {
			b.refuse(err)
			b.done <- struct{}{}
		}
		batches[i] = b
	}
	for i, b := range batches {
		if b == nil {
			continue
		}
		<-b.done // no call takes longer than MaxWait
		for k, u := range tried[i] {
			if u.err = b.requests[k].Err; u.err != nil {
				c.undos.back(i, u)
				continue
			}
			confirmed++
			c.undos.ended(1)
			if u.taken || gaveBack(&b.requests[k].Result) {
				c.undone.Add(1)
			}
		}
	}
	return confirmed
}

// finishUndos waits for the rounds that go on without their callers, tries the undos a
// last time, and counts what is left as lost. Dispatchers must still be open. It may be
// called twice.
func (c *cluster) finishUndos() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.wg.Wait()
	us := &c.undos
	us.mu.Lock()
	if us.closed {
		us.mu.Unlock()
		return
	}
	us.closed = true
	close(us.stop)
	us.mu.Unlock()
	<-us.done
	ctx, cancel := context.WithTimeout(context.Background(), c.store.opt.MaxWait)
	defer cancel()
	for ctx.Err() == nil && us.pending() > 0 && c.undoAgain() > 0 {
	}
	c.lost.Add(us.pending())
	us.ended(int(us.pending()))
}
