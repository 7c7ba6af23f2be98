package plain

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// watch looks at the connections whose requests take long: it ends the context of a client that left, and a write that
// takes too long. net/http has a goroutine and several deadlines for each request; here one goroutine looks at all
// connections that are in use every few milliseconds, and a request that is answered by then costs two stores. Idle
// connections cost nothing.
type watch struct {
	write time.Duration // the limit of requests
	conns []*conn       // the connections to check; only Run uses it
	mu    sync.Mutex
	added []*conn       // to be checked from the next tick on
	wake  chan struct{} // holds a token if there may be some
}

const (
	// watchTick is how often connections are checked. A request is checked from its second tick on, so that a client
	// that left is noticed within two ticks, which is less than 10 ms.
	watchTick = 4 * time.Millisecond
	// quietTicks is after how many ticks without a request a connection is not looked at until the next one.
	quietTicks = 25
)

// watched is what watch knows of a connection.
type watched struct {
	// busy is the number of the request that is decided now, with a last bit that says whether something that follows it
	// was read. It is 0 between requests.
	busy   atomic.Int64
	listed atomic.Bool // the connection is in watch.conns or watch.added
	number int64       // of the last request; only the goroutine of the connection uses it
	// The rest is used by Run only: the last value of busy above 0, when it was seen first, and for how many ticks there
	// has been no request.
	seen  int64
	since time.Time
	quiet int
}

// Values of watched.busy.
const (
	tooLong = -1 // the write of a response was cut off
	gone    = -2 // no request follows
)

func newWatch(write time.Duration) watch { return watch{write: write, wake: make(chan struct{}, 1)} }

// begin says that a request is decided from now on. more is true if bytes after it were read: a client that sent more
// and closed its side waits for all answers, unlike one that reset the connection. net/http ends the contexts of both.
func (w *watch) begin(c *conn, more bool) (busy int64) {
	c.number++
	busy = c.number << 1
	if more {
		busy |= 1
	}
	c.busy.Store(busy)
	if !c.listed.Load() && c.listed.CompareAndSwap(false, true) {
		w.add(c)
	}
	return busy
}

// end says that the response was sent. It reports false if that took too long.
func (w *watch) end(c *conn, busy int64) bool { return c.busy.CompareAndSwap(busy, 0) }

func (w *watch) add(c *conn) {
	w.mu.Lock()
	w.added = append(w.added, c)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run looks at the connections until ctx ends.
func (w *watch) Run(ctx context.Context) {
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
		if c.look(now, w.write) {
			kept = append(kept, c)
		}
	}
	clear(w.conns[len(kept):])
	w.conns = kept
	return len(kept) > 0
}

// look ends the context of a request whose client left, and the write of a response after the limit. It reports whether
// to look again.
func (c *conn) look(now time.Time, limit time.Duration) bool {
	switch busy := c.busy.Load(); {
	case busy == gone:
		return false
	case busy <= 0:
		if c.quiet++; c.quiet < quietTicks {
			return true
		}
		c.quiet = 0
		c.listed.Store(false)
		// A request that begins now adds the connection, or is seen here.
		return c.busy.Load() > 0 && c.listed.CompareAndSwap(false, true)
	case busy != c.seen:
		c.seen, c.since, c.quiet = busy, now, 0
	default:
		if c.Left(busy&1 == 1) {
			c.cancel()
		}
		if now.Sub(c.since) > limit && c.busy.CompareAndSwap(busy, tooLong) {
			_ = c.SetWriteDeadline(time.Unix(1, 0)) // if this fails, so does the write
		}
	}
	return true
}
