package plain

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// watch looks at the connections whose requests take long: it ends the context of a client that left, and a write that
// takes too long. net/http has a goroutine and several deadlines for each request; here one goroutine looks at all
// connections every few milliseconds, and a request that is answered by then costs two stores.
type watch struct {
	write  int64 // the limit of requests, in ticks
	mu     sync.Mutex
	conns  map[*conn]struct{}
	tick   atomic.Int64
	asleep atomic.Bool   // no connection was busy for a while
	wake   chan struct{} // holds a token when asleep became false
}

const (
	// watchTick is how often connections are looked at. A request is looked at from its second tick on, so that a client
	// that left is noticed within two ticks, which is less than 10 ms.
	watchTick = 4 * time.Millisecond
	// quietTicks is after how many ticks without a busy connection the goroutine sleeps.
	quietTicks = 25
)

func newWatch(write time.Duration) watch {
	return watch{write: int64(write / watchTick), conns: map[*conn]struct{}{}, wake: make(chan struct{}, 1)}
}

func (w *watch) add(c *conn) {
	w.mu.Lock()
	w.conns[c] = struct{}{}
	w.mu.Unlock()
}

func (w *watch) remove(c *conn) {
	w.mu.Lock()
	delete(w.conns, c)
	w.mu.Unlock()
}

// begin says that a request is decided from now on. more is true if something that follows it was read: a client that
// sent more and closed its side waits for all answers, unlike one that reset the connection. net/http ends the contexts
// of both.
func (w *watch) begin(c *conn, more bool) (began int64) {
	began = (w.tick.Load() + 1) << 1
	if more {
		began |= 1
	}
	c.busy.Store(began)
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return began
}

// end says that the response was sent. It reports false if that took too long.
func (w *watch) end(c *conn, began int64) bool { return c.busy.CompareAndSwap(began, 0) }

// tooLong is the value of conn.busy from the moment when the write of a response is cut off.
const tooLong = -1

// Run looks at the connections until ctx ends.
func (w *watch) Run(ctx context.Context) {
	ticker := time.NewTicker(watchTick)
	defer ticker.Stop()
	var late []*conn
	for quiet := 0; ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		busy := false
		if late, busy = w.look(w.tick.Add(1), late[:0]); busy {
			quiet = 0
			continue
		}
		if quiet++; quiet < quietTicks {
			continue
		}
		w.asleep.Store(true)
		if late, busy = w.look(w.tick.Load(), late[:0]); busy && w.asleep.CompareAndSwap(true, false) {
			continue
		}
		ticker.Stop()
		select {
		case <-w.wake:
		case <-ctx.Done():
			return
		}
		ticker.Reset(watchTick)
		quiet = 0
	}
}

// look looks at the requests that were under way at the tick before, and reports whether any is. late is memory for
// them.
func (w *watch) look(tick int64, late []*conn) (memory []*conn, busy bool) {
	w.mu.Lock()
	for c := range w.conns {
		if began := c.busy.Load(); began > 0 {
			busy = true
			if tick-began>>1 >= 1 {
				late = append(late, c)
			}
		}
	}
	w.mu.Unlock()
	for _, c := range late {
		c.look(tick, w.write)
	}
	clear(late)
	return late, busy
}

// look ends the context of a request whose client left, and the write of a response after limit ticks.
func (c *conn) look(tick, limit int64) {
	began := c.busy.Load()
	if began <= 0 {
		return
	}
	if c.Left(began&1 == 1) {
		c.cancel()
	}
	if tick-began>>1 > limit && c.busy.CompareAndSwap(began, tooLong) {
		_ = c.SetWriteDeadline(time.Unix(1, 0)) // if this fails, so does the write
	}
}
