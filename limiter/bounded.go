package limiter

import (
	"context"
	"time"
)

// Bounded is a context that starts a timer only when Done is called. A store that watches the deadline with its own
// timer uses Bound instead; other stores may treat it as any context.
type Bounded interface {
	context.Context
	Bound() Bound
}

// Bound holds the times that it needs to watch a deadline with its own timer.
type Bound struct {
	// Start is when the bound was set: shortly before the store is called, so that
	// the store need not look at the clock.
	Start time.Time
	// Deadline is Start plus the store timeout, and never later than Hard. A store that has not answered by then has
	// failed.
	Deadline time.Time
	// Turn is until when a request waits for its turn while the store answers; it is not before Start. A request that was
	// not sent by then fails with CauseOverload. The zero value means Deadline.
	Turn time.Time
	// Hard is the deadline of the caller, after which the store must not wait; zero if the caller has none.
	Hard time.Time
	// Canceled is closed when the caller leaves, and not at the deadline. It may be
	// nil, for never.
	Canceled <-chan struct{}
}
