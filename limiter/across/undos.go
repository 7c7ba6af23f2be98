package across

import (
	"context"
	"sync/atomic"
	"time"

	"sluice/internal/retry"
)

// UndoOptions configure Undos, whose places need a U to undo a part. All are required but Sure.
type UndoOptions[U any] struct {
	// Most is how many undos wait at most, and Batch how many of them are sent together.
	Most, Batch int
	// First and Last bound the pauses between two tries, and after Life an undo is lost.
	First, Last, Life time.Duration
	// Sure is the time for which the undo of a take that may still be in transit is repeated although there was nothing
	// to give back.
	Sure time.Duration
	// Of returns how to undo a part, and the queue that it waits in.
	Of func(*Part) (queue int, u U)
	// Send undoes what waits in a queue. It sets Result or Err for each.
	Send func(queue int, us []U) []Answer
	Now  func() time.Time
}

// Undos repeats undos that were not confirmed. It is safe for concurrent use and owns goroutines, which Close stops.
type Undos[U any] struct {
	opt    UndoOptions[U]
	queue  *retry.Queue[int, *undo[U]]
	undone atomic.Int64
}

type undo[U any] struct {
	of     U
	since  time.Time
	unsure bool          // the part may not have taken, or not yet
	parts  bool          // see Part.givesParts
	pause  time.Duration // before the last try, of one that is unsure
}

// NewUndos starts Undos.
func NewUndos[U any](opt UndoOptions[U]) *Undos[U] {
	u := &Undos[U]{opt: opt}
	u.queue = retry.New(retry.Options[int, *undo[U]]{Most: opt.Most, Batch: opt.Batch, First: opt.First, Last: opt.Last,
		Life: opt.Life, Try: u.try, Now: opt.Now})
	return u
}

// Keep counts what a request has undone and keeps what it could not undo. since is when that began to be due. An undo
// that cannot be kept makes the request one that may have been applied.
func (u *Undos[U]) Keep(r *Request, since time.Time) {
	u.undone.Add(r.undone)
	for _, p := range r.left {
		due := u.opt.Now()
		if p.unsure {
			due = due.Add(u.opt.First)
		}
		queue, of := u.opt.Of(p)
		it := &undo[U]{of: of, since: since, unsure: p.unsure, parts: p.givesParts(), pause: u.opt.First}
		if u.queue.Add(queue, it, since, due) {
			continue
		}
		if r.err == nil {
			r.fail(p)
		}
		r.err.Unknown = true
	}
}

// try sends the undos of one queue and returns the pause before the next attempt of each.
func (u *Undos[U]) try(queue int, undos []*undo[U]) []time.Duration {
	us, again := make([]U, len(undos)), make([]time.Duration, len(undos))
	for i, it := range undos {
		us[i] = it.of
	}
	asked := u.opt.Now()
	for i, answer := range u.opt.Send(queue, us) {
		switch it := undos[i]; {
		case answer.Err != nil:
			again[i] = retry.Failed
		case it.parts || gaveBack(answer.Result):
			u.undone.Add(1)
		case it.unsure && asked.Sub(it.since) < u.opt.Sure:
			it.pause = min(2*it.pause, u.opt.Last)
			again[i] = it.pause
		}
	}
	return again
}

// Stats returns how many undos gave back units, how many wait, and how many were lost. It may be called at any time.
func (u *Undos[U]) Stats() (undone, pending, lost int64) {
	pending, lost = u.queue.Stats()
	return u.undone.Load(), pending, lost
}

// Close tries what waits a last time, within ctx. It may be called twice.
func (u *Undos[U]) Close(ctx context.Context) { u.queue.Close(ctx) }
