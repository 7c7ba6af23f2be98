package plain

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// keeper closes idle connections, and connections whose requests do not arrive or whose answers are not read.
type keeper struct {
	mu    sync.Mutex
	early []*owned      // the connections that are due soon
	woken chan struct{} // holds a token if there is something to keep
}

// idleParts is how often an idle connection is checked within its limit. The limit may thus last longer by one part.
const idleParts = 60

func newKeeper() keeper { return keeper{woken: make(chan struct{}, 1)} }

// stir wakes the keeper.
func (k *keeper) stir() {
	select {
	case k.woken <- struct{}{}:
	default:
	}
}

// soon makes the keeper look at c often, until nothing is due soon.
func (k *keeper) soon(c *owned) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !c.early {
		c.early = true
		k.early = append(k.early, c)
		k.stir()
	}
}

// keep looks at the connections until ctx ends.
func (l *Loop) keep(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	idle := max(l.s.d.Idle/idleParts, watchTick)
	all := now() + int64(idle) // when to look at all
	quiet := 0                 // looks at the turn without a worker that serves
	for {
		at := now()
		if quiet++; l.minded.Load() && l.hurry(at) {
			quiet = 0
		}
		if quiet > quietTicks {
			l.minded.Store(false)
			l.minded.Store(l.hurry(at)) // a worker that began just now relies on it
		}
		waits := l.lookEarly(at)
		if at >= all {
			l.each(func(c *owned) { l.look(c, at) })
			all = at + int64(idle)
		}
		var ring <-chan time.Time
		switch minded := l.minded.Load(); {
		case minded || waits:
			ring = timer.C
			timer.Reset(watchTick)
		case l.Open() > 0:
			ring = timer.C
			timer.Reset(max(time.Duration(all-at), watchTick))
		}
		select {
		case <-ring:
		case <-l.woken:
			quiet = 0 // otherwise each turn of a calm loop would wake the keeper again
		case <-ctx.Done():
			return
		}
	}
}

// lookEarly looks at the connections that are due soon, and reports whether there are any left.
func (l *Loop) lookEarly(at int64) bool {
	l.mu.Lock()
	early := append([]*owned(nil), l.early...)
	l.mu.Unlock()
	for _, c := range early {
		l.look(c, at)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.early[:0]
	for _, c := range l.early {
		if c.early = c.loop.has(c) && c.due.Load()-c.rested.Load() < int64(l.s.d.Idle); c.early {
			kept = append(kept, c)
		}
	}
	clear(l.early[len(kept):])
	l.early = kept
	return len(kept) > 0
}

// look ends the wait of c if it is due.
func (l *Loop) look(c *owned, at int64) {
	if at < c.due.Load() || !c.state.CompareAndSwap(free, taken) {
		return
	}
	_, found, _ := scan(c.in, c.used.Load(), new(head), l.s.d.MaxBody)
	more, _ := unread(c.fd)
	switch {
	case at < c.due.Load() || more && len(c.out) == 0: // somebody was faster
		l.giveBack(c)
	case len(c.out) == 0 && found == part:
		c.handOver(slow)
	default:
		c.close()
	}
}

// giveBack releases c and makes a worker read what has happened since. It asks the kernel to report that again while
// the caller still owns c: afterwards the descriptor may belong to another connection.
func (l *Loop) giveBack(c *owned) {
	for told := false; !told; told = c.release() {
		_ = l.control(unix.EPOLL_CTL_MOD, c)
	}
}

// has reports whether c is still a connection of the loop.
func (l *Loop) has(c *owned) bool {
	return l.conns[c.fd/len(chunk{})].Load()[c.fd%len(chunk{})].Load() == c
}

// Drain closes connections that have been idle for fresh, if they have not sent a request yet, or else for used. It is
// called repeatedly during a drain.
func (l *Loop) Drain(fresh, used time.Duration) {
	at := now()
	l.each(func(c *owned) {
		grace := fresh
		if c.used.Load() {
			grace = used
		}
		if at-c.rested.Load() < int64(grace) || !c.state.CompareAndSwap(free, taken) {
			return
		}
		_, found, _ := scan(c.in, c.used.Load(), new(head), l.s.d.MaxBody)
		more, _ := unread(c.fd)
		if more || found != nothing || len(c.out) > 0 || at-c.rested.Load() < int64(grace) {
			l.giveBack(c)
		} else {
			c.close()
		}
	})
}
