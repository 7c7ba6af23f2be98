package limiter

import (
	"context"
	"time"
)

// Bounded is a context whose Done channel costs a timer once it is asked for.
// A store that keeps the deadline by itself asks for Canceled instead; every
// other store may treat it as any context.
type Bounded interface {
	context.Context
	// Canceled is closed when the caller leaves, and not at the deadline, which
	// Deadline tells. It may be nil, for never.
	Canceled() <-chan struct{}
	// Within is at most how long it was from the context's making to its
	// deadline, so that a store need not look at the clock to tell a short one.
	Within() time.Duration
}
