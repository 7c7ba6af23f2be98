package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// firstBytes is how much of the first request is read at once, enough for small
// ones.
const firstBytes = 512

// guest is a connection that a patient accepted.
type guest struct {
	net.Conn
	home  *patient
	first []byte // has been read and is still to be given
	leave sync.Once

	mu sync.Mutex
	// silent: nothing of a request was read since the connection was accepted or
	// the last answer was sent, at since. In a drain it may stay so for moment.
	silent bool
	since  time.Time
	moment time.Duration
	// until is the read deadline that the server asked for. hurried: an earlier
	// one is in force.
	until   time.Time
	hurried bool
}

// Read gives the first bytes first. Like all of net/http's reads it is not
// called concurrently with itself.
func (g *guest) Read(p []byte) (int, error) {
	if len(g.first) > 0 {
		n := copy(p, g.first)
		if g.first = g.first[n:]; len(g.first) == 0 {
			g.first = nil // 512 bytes a connection need not stay
		}
		return n, nil
	}
	n, err := g.Conn.Read(p)
	if err != nil && g.onceMore(err) {
		n, err = g.Conn.Read(p)
	}
	if n > 0 {
		g.mu.Lock()
		g.silent = false
		g.mu.Unlock()
	}
	return n, err
}

// onceMore reports whether a read that was cut short by hurry is to be repeated:
// bytes may have arrived that it did not look at.
func (g *guest) onceMore(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.hurried {
		return false
	}
	g.hurried = false
	until := g.until
	if g.silent {
		until = time.Now().Add(lastLook)
	}
	return g.Conn.SetReadDeadline(until) == nil
}

// SetReadDeadline is net.Conn's.
func (g *guest) SetReadDeadline(t time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.until, g.hurried = t, false
	return g.Conn.SetReadDeadline(t)
}

// hurry ends the wait for a request if it lasts for too long already. It is
// called repeatedly, because the server may set its own deadline after it.
func (g *guest) hurry(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.silent && !g.hurried && now.Sub(g.since) >= g.moment {
		g.hurried = g.Conn.SetReadDeadline(now) == nil
	}
}

// Close is net.Conn's.
func (g *guest) Close() error {
	err := g.Conn.Close()
	g.leave.Do(func() { g.home.leave(g) })
	return err
}

// guestOf finds the guest below a connection of the http.Server.
func guestOf(c net.Conn) (*guest, bool) {
	if inner, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = inner.NetConn() // below TLS
	}
	g, ok := c.(*guest)
	return g, ok
}

type guestKey struct{}

// withGuest is the http.Server's ConnContext: requests find their connection.
func withGuest(ctx context.Context, c net.Conn) context.Context {
	if g, ok := guestOf(c); ok {
		return context.WithValue(ctx, guestKey{}, g)
	}
	return ctx
}

// speaks notes that a request came. Read alone would miss one that arrived
// together with the one before it.
func speaks(ctx context.Context) {
	if g, ok := ctx.Value(guestKey{}).(*guest); ok {
		g.mu.Lock()
		g.silent = false
		g.mu.Unlock()
	}
}

// followState is the http.Server's ConnState: a connection whose answer was sent
// is silent again.
func followState(c net.Conn, state http.ConnState) {
	if g, ok := guestOf(c); ok && state == http.StateIdle {
		g.mu.Lock()
		g.silent, g.since, g.moment = true, time.Now(), idleMoment
		g.mu.Unlock()
	}
}
