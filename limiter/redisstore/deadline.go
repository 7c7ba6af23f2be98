package redisstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// callTime is the context of one call to a server. It bounds two things:
//
//   - Until the client has a connection, the context ends at the limit after the call began.
//   - From then on the server has the limit, counted from when it has the call: go-redis asks for the deadline right
//     before it writes a command and right after it, when it begins to read, and each time gets the limit from now.
//
// An example with a limit of 21 ms, on a node that was not run between 1 ms and 90 ms:
//
//	t=0 ms    the call begins
//	t=90 ms   the command is written; its answer is expected by 111 ms
//	t=91 ms   the answer arrives
//
// So a deadline that passes says something about the server alone. The context serves one call, made by one goroutine.
type callTime struct {
	context.Context
	limits
	began time.Time
	asked atomic.Int64 // when the deadline was last asked for, in ns since began, plus one; 0: never
}

// limits bound a call.
type limits struct {
	limit time.Duration // for a connection, and then for the server
	hard  time.Time     // not even the server's time goes beyond it; zero for none
}

// newCallTime returns the context of a call that begins now. release ends it.
func newCallTime(parent context.Context, l limits) (c *callTime, release context.CancelFunc) {
	ctx, release := context.WithTimeout(parent, l.limit)
	return &callTime{Context: ctx, limits: l, began: wallTime()}, release
}

// Deadline is the limit from now.
func (c *callTime) Deadline() (time.Time, bool) {
	now := wallTime()
	c.asked.Store(int64(now.Sub(c.began)) + 1)
	until := now.Add(c.limit)
	if !c.hard.IsZero() && c.hard.Before(until) {
		until = c.hard
	}
	return until, true
}

// had returns for how long the server has had the call until now. Before the call is written, that is the time in which
// the server could have taken a connection.
func (c *callTime) had(now time.Time) time.Duration {
	return now.Sub(c.began) - time.Duration(max(c.asked.Load()-1, 0))
}

// unwritten reports whether an error means that the call was never written for want of a connection, and that this
// says nothing about the server: all connections are in use, or this node was late. dialing says that a connection is
// being made: one that is not there by the limit is the server's failure.
func (c *callTime) unwritten(err error, dialing bool) bool {
	var dial *notDialled
	switch {
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return true
	case errors.As(err, &dial):
		return dial.late
	case noConnection(err):
		return !dialing || wallTime().Sub(c.began) > c.limit+lateness
	}
	return false
}

// noConnection reports whether a call failed because the context ended before there was a connection. A slow read or
// write ends with another error, os.ErrDeadlineExceeded.
func noConnection(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// lateness is how late something may be without this node lacking the CPU: timers of a calm process are about a
// millisecond late.
const lateness = 2 * time.Millisecond
