package decide

import (
	"context"
	"errors"

	"sluice/internal/gather"
)

const (
	// openQueue is how many changes of the list wait to be written while no request waits for them. More are dropped and
	// counted, and the list is wrong until their reservations expire.
	openQueue = 16_384
	// listBatch is how many changes go out together. A batch takes Redis a few ms.
	listBatch = 256
	// listWriters is how many batches that requests wait for are written at once, so that one slow answer does not hold
	// up all of them.
	listWriters = 4
)

// later makes a change of the list that no request waits for.
func (o *OpenReservations) later(change *ListChange) {
	select {
	case o.queue <- change:
	default:
		o.queueDrops.Add(1)
	}
}

// writeQueued writes a batch of up to most changes that wait in the queue, behind those that it gets. It returns how
// many it wrote. One that fails leaves an entry that is removed when it is due.
func (o *OpenReservations) writeQueued(ctx context.Context, most int, batch ...*ListChange) int {
	for len(batch) < most && len(o.queue) > 0 { // only one goroutine takes from the queue
		batch = append(batch, <-o.queue)
	}
	o.writeList(ctx, batch)
	return len(batch)
}

// writeList makes changes of the list, and counts those that it has no room for.
func (o *OpenReservations) writeList(ctx context.Context, batch []*ListChange) {
	o.list.Write(ctx, batch)
	for _, change := range batch {
		if errors.Is(change.Err, errListFull) {
			o.listDrops.Add(1)
		}
	}
}

// flush writes the changes that wait, and none that come meanwhile.
func (o *OpenReservations) flush(ctx context.Context) {
	for left := len(o.queue); left > 0; {
		left -= o.writeQueued(ctx, min(left, listBatch))
	}
}

// write writes changes until ctx ends, in their order.
func (o *OpenReservations) write(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case change := <-o.queue:
			o.writeQueued(ctx, listBatch, change)
		}
	}
}

// listWait is a change that a request waits for.
type listWait struct {
	place  gather.Item[*listWait]
	change ListChange
	taken  bool // it is in a batch; guarded by OpenReservations.mu
	done   chan struct{}
}

// writeNow makes a change of the list and waits for it until ctx ends. Requests that wait at the same time are written
// together, by one of them. A change may have been made although writeNow returns the error of ctx.
func (c *Checker) writeNow(ctx context.Context, change *ListChange) error {
	o := c.opt.Open
	w := &listWait{change: *change, done: make(chan struct{})}
	o.mu.Lock()
	o.waiting.Push(&w.place, w, 1, 1)
	o.mu.Unlock()
	for turns := o.turns; ; {
		select {
		case <-w.done:
			return w.change.Err
		case turns <- struct{}{}:
			if c.writeWaiting(ctx, w) {
				turns = nil // what is being written needs no help
			}
		case <-ctx.Done():
			o.mu.Lock()
			o.waiting.Remove(&w.place)
			o.mu.Unlock()
			return ctx.Err()
		}
	}
}

// writeWaiting begins to write a batch of the changes that requests wait for, and gives its turn back once that is
// done. It reports whether w is no longer among those that wait. The end of a request does not end the batch, and the
// request does not wait for the whole of it.
func (c *Checker) writeWaiting(ctx context.Context, w *listWait) (taken bool) {
	o := c.opt.Open
	o.mu.Lock()
	batch, _ := o.waiting.Take(nil, listBatch, listBatch, func(w *listWait) bool {
		w.taken = true
		return true
	})
	taken = w.taken
	o.mu.Unlock()
	if len(batch) == 0 {
		<-o.turns
		return taken
	}
	changes := make([]*ListChange, len(batch))
	for i, w := range batch {
		changes[i] = &w.change
	}
	ctx, cancel := c.limited(context.WithoutCancel(ctx))
	go func() {
		defer cancel()
		o.writeList(ctx, changes)
		<-o.turns
		for _, w := range batch {
			close(w.done)
		}
	}()
	return taken
}
