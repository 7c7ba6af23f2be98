package limiter

import (
	"context"
	"time"
)

// Bounded is a context that starts a timer only when Done is called. A store that
// watches the deadline by itself uses Bound instead; other stores may treat it as
// any context.
type Bounded interface {
	context.Context
	Bound() Bound
}

// Bound is what a store needs to watch a deadline by itself.
type Bound struct {
	// Start is when the bound was set: shortly before the store is called, so that
	// the store need not look at the clock.
	Start time.Time
	// Deadline is Start plus the store timeout, and never later than Hard. A store that does not answer has failed then.
	Deadline time.Time
	// Turn is until when a request waits for its turn while the store answers; it is not before Start. A request that was
	// not sent by then fails with CauseOverload. The zero value means Deadline.
	Turn time.Time
	// Hard is the caller's own deadline, after which nothing may be waited for; zero if it has none.
	Hard time.Time
	// Canceled is closed when the caller leaves, and not at the deadline. It may be
	// nil, for never.
	Canceled <-chan struct{}
}
