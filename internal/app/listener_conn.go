package app

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// firstRead is the number of bytes of the first request that are read at once. It is enough for a small request.
const firstRead = 512

// trackedConn is a connection of a firstByteListener.
type trackedConn struct {
	net.Conn
	listener *firstByteListener
	first    []byte               // bytes already read from Conn, for the next Read
	secure   *tls.ConnectionState // nil without TLS
	untrack  sync.Once
	begun    atomic.Bool // the server has begun to read

	mu sync.Mutex
	// idle is true if nothing was read since the connection was accepted, or fewer than
	// leastRequest bytes since the last response was sent: a line break is no request. few is
	// how many are missing. During a drain it may stay idle for grace from since on.
	idle  bool
	since time.Time
	grace time.Duration
	few   int
	// deadline is the read deadline that the server set, and armed the deadline of Conn, which is not later: a deadline
	// that moves with every request is set again only after an earlier one has passed. expired is true while the
	// deadline of a drain is in force instead, and final during the last read that follows.
	deadline, armed time.Time
	expired, final  bool
}

// Read returns the first bytes first. Like every read of net/http, it is not called
// concurrently with itself.
func (c *trackedConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		c.begun.Store(true)
		n := copy(p, c.first)
		if c.first = c.first[n:]; len(c.first) == 0 {
			c.first = nil // frees 512 bytes per connection
		}
		return n, nil
	}
	n, err := c.Conn.Read(p)
	for err != nil && c.shouldReadAgain(err) {
		n, err = c.Conn.Read(p)
	}
	if n > 0 {
		c.received(n)
	}
	return n, err
}

// shouldReadAgain reports whether to repeat a read that ended at an earlier deadline than the server's. After the
// deadline of a drain it is repeated once: bytes may have arrived that the read did not return. It is repeated again
// only if there are such bytes: if the process was not run for a while, the deadline is noticed before the bytes.
func (c *trackedConn) shouldReadAgain(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case c.final && !hasUnread(c.Conn), !c.final && !c.expired && !now.Before(c.deadline):
		return false
	case c.final, c.expired && c.idle:
		c.final, c.armed = true, now.Add(finalRead)
	default:
		c.armed = c.deadline
	}
	c.expired = false
	return c.Conn.SetReadDeadline(c.armed) == nil
}

// SetReadDeadline implements net.Conn.
func (c *trackedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	if !c.expired && !c.final && !c.armed.IsZero() && t.After(c.armed) {
		return nil
	}
	c.armed, c.expired, c.final = t, false, false
	return c.Conn.SetReadDeadline(t)
}

// expireIdle stops waiting for a request if the connection has been idle for its grace time. It is called repeatedly,
// because the server may set its own deadline afterwards.
func (c *trackedConn) expireIdle(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle && !c.expired && !c.final && now.Sub(c.since) >= c.grace {
		c.expired = c.Conn.SetReadDeadline(now) == nil
	}
}

// restart starts waiting for the first request, after the handshake.
func (c *trackedConn) restart() {
	c.mu.Lock()
	c.since = time.Now()
	c.mu.Unlock()
}

// Close implements net.Conn.
func (c *trackedConn) Close() error {
	err := c.Conn.Close()
	c.untrack.Do(func() { c.listener.untrack(c) })
	return err
}

// CloseWrite signals to the client that the response is complete. net/http calls it before it closes a connection whose
// request it did not read to the end: without it, the client may lose the response.
func (c *trackedConn) CloseWrite() error {
	if conn, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return conn.CloseWrite()
	}
	return nil
}

// leastRequest is how many bytes after a response are the beginning of a request: net/http waits for as many before it
// reads another one.
const leastRequest = 4

// received notes that bytes were read.
func (c *trackedConn) received(n int) {
	c.mu.Lock()
	c.few -= n
	c.final = false
	if c.idle = c.idle && c.few > 0; c.idle {
		c.since = time.Now()
	}
	c.mu.Unlock()
}

// setActive notes that a request is under way.
func (c *trackedConn) setActive() {
	c.mu.Lock()
	c.idle, c.final = false, false
	c.mu.Unlock()
}

type connKey struct{}

// withConn is the ConnContext of the http.Server: it adds the connection to the
// context of its requests.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*trackedConn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// followState is the ConnState of the http.Server: a connection is idle again once
// its response was sent.
func followState(conn net.Conn, state http.ConnState) {
	if c, ok := conn.(*trackedConn); ok && state == http.StateIdle {
		c.Rest()
	}
}
