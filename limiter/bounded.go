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
	// Deadline is never later than the caller's own.
	Deadline time.Time
	// Canceled is closed when the caller leaves, and not at the deadline. It may be
	// nil, for never.
	Canceled <-chan struct{}
}
