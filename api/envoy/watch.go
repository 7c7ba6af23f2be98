package envoy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// watch checks the connections in use every few milliseconds. It finds calls whose messages do not arrive, writes that
// a client does not read, and long batches, during which another goroutine continues to read. Idle connections cost
// nothing.
type watch struct {
	conns []*h2conn // the connections to check; only run uses it
	mu    sync.Mutex
	added []*h2conn     // to be checked from the next tick on
	wake  chan struct{} // holds a token if there may be some
}

const (
	watchTick = 4 * time.Millisecond
	// quietTicks is after how many ticks without use a connection is not looked at until it is used again.
	quietTicks = 25
	// writeLimit bounds one write.
	writeLimit = 5 * time.Second
)

// watched is what watch knows of a connection.
type watched struct {
	// busy is the number of the turn that is under way, 0 while the connection is read. It changes with h2conn.mu locked.
	busy   atomic.Int64
	writes atomic.Int64 // when the write that is under way began, in ns since the epoch; 0 for none
	listed atomic.Bool  // the connection is in watch.conns or watch.added
	// The rest is used by run only: the turn that the last tick saw, and for how many ticks nothing was under way.
	seen  int64
	quiet int
}

func newWatch() watch { return watch{wake: make(chan struct{}, 1)} }

// list makes run look at a connection, whose mu is locked.
func (w *watch) list(c *h2conn) {
	if c.listed.Load() || !c.listed.CompareAndSwap(false, true) {
		return
	}
	w.mu.Lock()
	w.added = append(w.added, c)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run looks at the connections until ctx ends.
func (w *watch) run(ctx context.Context) {
	ticker := time.NewTicker(watchTick)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			if w.look(now) {
				continue
			}
		case <-ctx.Done():
			return
		}
		ticker.Stop()
		select {
		case <-w.wake:
		case <-ctx.Done():
			return
		}
		ticker.Reset(watchTick)
	}
}

// look looks at all connections that are in use, and reports whether any is.
func (w *watch) look(now time.Time) bool {
	w.mu.Lock()
	w.conns = append(w.conns, w.added...)
	clear(w.added)
	w.added = w.added[:0]
	w.mu.Unlock()
	kept := w.conns[:0]
	for _, c := range w.conns {
		if c.look(now) {
			kept = append(kept, c)
		}
	}
	clear(w.conns[len(kept):])
	w.conns = kept
	return len(kept) > 0
}

// look reports whether to look at the connection again.
func (c *h2conn) look(now time.Time) bool {
	if c.ctx.Err() != nil {
		return false // it is closed, or grpc-go has it
	}
	busy, began := c.busy.Load(), c.writes.Load()
	if began != 0 && now.Sub(time.Unix(0, began)) > writeLimit {
		c.abort()
		return false
	}
	if busy != 0 && busy == c.seen {
		c.readOn(busy)
	}
	c.seen = busy
	waits := c.expire(now)
	if busy != 0 || began != 0 || waits {
		c.quiet = 0
		return true
	}
	if c.quiet++; c.quiet < quietTicks {
		return true
	}
	c.quiet = 0
	c.mu.Lock()
	defer c.mu.Unlock()
	// Work that has begun since is seen here, and work that begins later lists the connection again.
	used := c.busy.Load() != 0 || c.writes.Load() != 0 || !c.soonest.IsZero()
	c.listed.Store(used)
	return used
}
