package redisstore

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"sync"
	"time"

	"sluice/internal/tick"
	"sluice/limiter"
)

// BreakerState says what a breaker lets through. The zero value is closed.
type BreakerState uint8

const (
	// BreakerClosed lets every script call through.
	BreakerClosed BreakerState = iota
	// BreakerHalfOpen lets a share through that grows from a tenth to all of
	// them, for half as long as the outage was and at most rampMost.
	BreakerHalfOpen
	// BreakerOpen lets nothing through but one probe at a time.
	BreakerOpen
)

// String returns the word used in metrics and logs.
func (s BreakerState) String() string {
	switch s {
	case BreakerOpen:
		return "open"
	case BreakerHalfOpen:
		return "half_open"
	}
	return "closed"
}

const (
	// tripRun consecutive failures open a breaker, and so do tripShare failures in the last tripOf calls. One slow call
	// does not.
	tripRun   = 5
	tripShare = 10
	tripOf    = 20
	// rampRun consecutive failures while half open open it again.
	rampRun = 2
	// A breaker stays half open for a rampPart of the outage, within these bounds.
	rampPart  = 2
	rampLeast = 10 * time.Millisecond
	rampMost  = 400 * time.Millisecond
	rampFirst = 0.1
	// newOutageAfter is how long a breaker must have been closed for its next opening to count
	// as a new outage.
	newOutageAfter = time.Second
	// The pause from the opening to the first probe, the longest between the
	// beginnings of two, and for how long a probe waits for its connection.
	probeFirst = 10 * time.Millisecond
	probeMost  = 250 * time.Millisecond
	probeWait  = 200 * time.Millisecond
)

// Breaker describes one circuit breaker at one moment.
type Breaker struct {
	// Node is the server's address, host:port; for a primary that Sentinel
	// names, the client's word for it.
	Node  string
	State BreakerState
	// Since is when it entered this state.
	Since time.Time
	// Opened counts how often it opened, Probes the probes that were sent while it was open,
	// Refused the script calls that it refused.
	Opened, Probes, Refused int64
	// Cause is why it last opened, "" if it never did.
	Cause limiter.Cause
}

// BreakerChange is a change of a breaker's state.
type BreakerChange struct {
	Node     string
	From, To BreakerState
	// Cause and Err are why it opened; Err never contains a key or a password.
	Cause limiter.Cause
	Err   error
	// Lasted is how long it was in the previous state.
	Lasted time.Duration
}

// verdict is what the result of a call means for the server.
type verdict uint8

const (
	healthy verdict = iota
	failing
	inconclusive // the call says nothing about the server
)

// breaker guards one server. Its methods take the time of the event and are
// safe for concurrent use.
type breaker struct {
	node    string
	changed func(BreakerChange)
	// watch starts, when the breaker opens, what ends in recovered.
	watch func(*breaker)

	mu      sync.Mutex
	state   BreakerState
	since   time.Time
	outage  time.Time     // when the present outage began, or the last one
	ramp    time.Duration // while half open: for how long
	run     int           // consecutive failures
	last    uint32        // the last tripOf calls, newest in bit 0; 1 is a failure
	credit  float64       // while half open: calls that may pass
	pause   time.Duration
	cause   limiter.Cause
	err     error
	opened  int64
	probes  int64
	refused int64
}

// admit reports whether a script call may be sent.
func (b *breaker) admit(now time.Time) bool {
	b.mu.Lock()
	if b.state == BreakerClosed {
		b.mu.Unlock()
		return true
	}
	change := b.endRamp(now)
	ok := true
	switch b.state {
	case BreakerOpen:
		ok = false
	case BreakerHalfOpen:
		passed := max(0, now.Sub(b.since)) // the call may have begun before the ramp
		b.credit += rampFirst + (1-rampFirst)*float64(passed)/float64(b.ramp)
		if ok = b.credit >= 1; ok {
			b.credit--
		}
	}
	if !ok {
		b.refused++
	}
	b.mu.Unlock()
	b.notify(change)
	return ok
}

// endRamp closes a breaker that has been half open for long enough.
func (b *breaker) endRamp(now time.Time) *BreakerChange {
	if b.state != BreakerHalfOpen || b.run > 0 || now.Sub(b.since) < b.ramp {
		return nil
	}
	return b.enter(BreakerClosed, now)
}

// report records the result of a call that was admitted.
func (b *breaker) report(now time.Time, v verdict, cause limiter.Cause, err error) {
	if v == inconclusive {
		return
	}
	b.mu.Lock()
	var change *BreakerChange
	switch {
	case b.state == BreakerOpen: // sent before it opened
	case v == healthy:
		b.run, b.last = 0, b.last<<1
	default:
		b.run++
		b.last = b.last<<1 | 1
		if b.tripped() {
			b.cause, b.err = cause, err
			b.opened++
			if b.state == BreakerClosed && now.Sub(b.since) >= newOutageAfter {
				b.outage, b.pause = now, 0
			}
			change = b.enter(BreakerOpen, now)
		}
	}
	b.mu.Unlock()
	if change != nil {
		b.notify(change)
		b.watch(b)
	}
}

func (b *breaker) tripped() bool {
	if b.state == BreakerHalfOpen {
		return b.run >= rampRun
	}
	return b.run >= tripRun || bits.OnesCount32(b.last&(1<<tripOf-1)) >= tripShare
}

// recovered makes the breaker half-open after a successful probe. A growing share of calls passes:
// all of them soon after a short outage, more slowly after one in which many have waited.
func (b *breaker) recovered(now time.Time) {
	b.mu.Lock()
	b.ramp = min(max(now.Sub(b.outage)/rampPart, rampLeast), rampMost)
	change := b.enter(BreakerHalfOpen, now)
	b.mu.Unlock()
	b.notify(change)
}

// enter changes the state; the caller holds mu and calls notify afterwards.
func (b *breaker) enter(to BreakerState, now time.Time) *BreakerChange {
	c := &BreakerChange{Node: b.node, From: b.state, To: to, Cause: b.cause, Err: b.err, Lasted: now.Sub(b.since)}
	if b.since.IsZero() {
		c.Lasted = 0
	}
	b.state, b.since, b.run, b.last, b.credit = to, now, 0, 0, 0
	return c
}

func (b *breaker) notify(c *BreakerChange) {
	if c != nil && b.changed != nil {
		b.changed(*c)
	}
}

// probing returns the pause between the starts of two probes. It doubles each time and has a
// random part, so that the nodes of a fleet do not probe at the same moment.
func (b *breaker) probing() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probes++
	b.pause = min(max(2*b.pause, probeFirst), probeMost)
	return b.pause - rand.N(b.pause/4) //nolint:gosec // not a secret
}

// refusal returns the error of a call that was refused.
func (b *breaker) refusal() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return &limiter.StoreError{Cause: limiter.CauseBreaker, Err: &refusal{node: b.node, cause: b.cause}}
}

// snapshot returns the current description of the breaker.
func (b *breaker) snapshot(now time.Time) Breaker {
	b.mu.Lock()
	change := b.endRamp(now)
	s := Breaker{
		Node: b.node, State: b.state, Since: b.since, Opened: b.opened, Probes: b.probes, Refused: b.refused, Cause: b.cause,
	}
	b.mu.Unlock()
	b.notify(change)
	return s
}

// refusal is the reason why a call was not sent.
type refusal struct {
	node  string
	cause limiter.Cause
}

func (r *refusal) Error() string {
	return "the breaker of " + r.node + " is open after " + string(r.cause)
}

// watchUntil sends probes one after another until one succeeds or ctx ends. It returns false if
// the client of the server is closed, so that no probe can ever succeed.
func (b *breaker) watchUntil(ctx context.Context, now func() time.Time, probe func(context.Context) error) bool {
	last := now()
	for {
		if !tick.Wait(ctx, b.probing()-now().Sub(last)) {
			return true
		}
		last = now()
		switch err := probe(ctx); {
		case err == nil:
			b.recovered(now())
			return true
		case clientClosed(err):
			return false
		}
	}
}
