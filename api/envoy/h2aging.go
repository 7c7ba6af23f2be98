package envoy

import (
	"math/rand/v2"
	"time"

	"golang.org/x/net/http2"
)

// The reasons to ask clients for a new connection, in the words of grpc-go.
const (
	drainStop = "graceful_stop"
	drainAge  = "max_age"
)

// drainPing is sent after the first GOAWAY. Calls that a client sends until it answers are answered.
var drainPing = [8]byte{'g', 'o', 'i', 'n', 'g'}

// drainLimit bounds the wait for the answer to drainPing.
const drainLimit = 5 * time.Second

// aging is what happens on a connection as time passes. Its zero times are never.
type aging struct {
	timer *time.Timer
	heard time.Time // when something was read last
	asked time.Time // when the client was asked whether it is still there, unless something was read since
	// The times at which the client is asked for a new connection, at which that is final, and at which this connection
	// is closed.
	old, final, over time.Time
	drainReason      string // "" until the client is asked for a new connection
	moved            bool   // later calls are not answered
}

// ageJitter: the greatest ages of connections differ by up to one ageJitter-th.
const ageJitter = 10

// startAging starts the timer of the connection.
func (c *h2conn) startAging() {
	if age := c.loop.server.deps.MaxAge; age > 0 {
		if most := age / ageJitter; most > 0 {
			age += rand.N(2*most) - most //nolint:gosec // only spreads the load
		}
		c.old = c.now.Add(age)
	}
	if c.closed {
		return
	}
	c.stopAging()
	c.timer = time.AfterFunc(pingInterval, c.age)
	c.setTimer(c.now)
}

// stopAging stops the timer.
func (c *h2conn) stopAging() {
	if c.timer != nil {
		c.timer.Stop()
	}
}

// setTimer sets the timer to what is next.
func (c *h2conn) setTimer(now time.Time) {
	if c.timer == nil || c.closed {
		return
	}
	next := c.heard.Add(pingInterval)
	if !c.asked.IsZero() {
		next = c.asked.Add(pingTimeout)
	}
	for _, at := range []time.Time{c.old, c.final, c.over} {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	c.timer.Reset(next.Sub(now))
}

// age does what is due.
func (c *h2conn) age() {
	now := clock()
	c.mu.Lock()
	over := !c.over.IsZero() && !now.Before(c.over)
	if !c.old.IsZero() && !now.Before(c.old) {
		c.old, c.over = time.Time{}, now.Add(maxAgeGrace)
		c.beginDrain(drainAge, now)
	}
	if !c.final.IsZero() && !now.Before(c.final) {
		c.final = time.Time{}
		c.drained()
	}
	switch {
	case c.heard.After(c.asked):
		c.asked = time.Time{}
		if now.Sub(c.heard) >= pingInterval {
			c.asked = now
			c.out = appendPing(c.out, 0, [8]byte{})
		}
	case now.Sub(c.asked) >= pingTimeout:
		over = true
	}
	c.setTimer(now)
	c.mu.Unlock()
	if over {
		c.abort()
		return
	}
	c.flush()
}

// drain asks the client to move on.
func (c *h2conn) drain(why string) {
	c.mu.Lock()
	now := clock()
	c.beginDrain(why, now)
	c.setTimer(now)
	if c.timer == nil && !c.closed { // before the first settings, for which another limit applies
		c.timer = time.AfterFunc(drainLimit, c.age)
	}
	c.mu.Unlock()
	c.spawn(c.flush) // a client that reads nothing does not hold up others
}

// beginDrain sends the first GOAWAY, after which calls that are on their way are still answered.
func (c *h2conn) beginDrain(why string, now time.Time) {
	if c.drainReason != "" || c.closing {
		return
	}
	c.drainReason = why
	c.out = appendGoAway(c.out, maxWindow, http2.ErrCodeNo, why)
	c.out = appendPing(c.out, 0, drainPing)
	c.final = now.Add(drainLimit)
}

// drained sends the second GOAWAY. The connection ends with the calls that it has.
func (c *h2conn) drained() {
	if c.drainReason == "" || c.moved || c.closing {
		return
	}
	c.moved, c.final = true, time.Time{}
	c.out = appendGoAway(c.out, c.last, http2.ErrCodeNo, c.drainReason)
	c.closing = len(c.streams) == 0
}
