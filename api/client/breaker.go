package client

import (
	"errors"
	"sync"
	"time"
)

const (
	// failuresToOpen is how many calls in a row must fail before the breaker opens.
	failuresToOpen = 5
	// firstPause is the time until the first probe, longestPause the longest; each failed probe doubles it.
	firstPause, longestPause = 100 * time.Millisecond, time.Second
)

// breaker is a circuit breaker: after failuresToOpen failures in a row it is open and refuses calls. When a pause has
// passed it is half-open: one call at a time is the probe. A success closes it.
type breaker struct {
	now func() time.Time

	mu       sync.Mutex
	failures int // in a row
	open     bool
	probing  bool
	until    time.Time // when it is open: the instant of the next probe
	pause    time.Duration
}

// permission says whether a call may be made.
type permission int

const (
	permitted permission = iota
	probe                // permitted, alone
	refused
)

// enter asks for permission. A call that is permitted must leave.
func (b *breaker) enter() permission {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.open:
		return permitted
	case b.probing || b.now().Before(b.until):
		return refused
	}
	b.probing = true
	return probe
}

// outcome is what a call says about the service.
type outcome int

const (
	succeeded outcome = iota
	failing
	unknown // the caller left before the answer came
)

// leave reports the outcome of a call.
func (b *breaker) leave(p permission, o outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p == probe {
		b.probing = false
	}
	switch {
	case o == succeeded:
		b.open, b.failures, b.pause = false, 0, 0
	case o == unknown:
	case b.open && p != probe: // a call from before it opened
	case b.open:
		b.pause = min(2*b.pause, longestPause)
		b.until = b.now().Add(b.pause)
	default:
		if b.failures++; b.failures >= failuresToOpen {
			b.open, b.pause = true, firstPause
			b.until = b.now().Add(b.pause)
		}
	}
}

// outcome classifies the error of a call. left reports that its caller gave up before the client's own timeout.
func outcomeOf(err error, left bool) outcome {
	var p *Problem
	switch {
	case err == nil || !Unavailable(err) && !errors.Is(err, ErrClosed):
		return succeeded
	case left || errors.Is(err, ErrClosed):
		return unknown
	case Overloaded(err):
		return succeeded
	case errors.As(err, &p) && (p.Type == "/problems/store-unavailable" || p.Type == "/problems/queue-unavailable"):
		return succeeded // the service answers, and decides checks by the fail modes of its rules
	}
	return failing
}
