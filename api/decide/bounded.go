package decide

import (
	"context"
	"sync"
	"time"

	"sluice/limiter"
)

// bounded is a limiter.Bounded: context.WithTimeout without its timer, which is
// made only if something asks for Done. One check needs none of that where the
// store watches deadlines by itself, and its cost would be a tenth of the
// check's.
type bounded struct {
	context.Context           // the caller's
	until           time.Time // never later than the caller's own deadline
	within          time.Duration

	mu     sync.Mutex
	real   context.Context //nolint:containedctx // the timer of this very context
	cancel context.CancelFunc
	done   bool // released
}

var _ limiter.Bounded = (*bounded)(nil)

// within bounds ctx by d from now. The caller calls release when done with it.
func within(ctx context.Context, d time.Duration) *bounded {
	until := time.Now().Add(d) //nolint:forbidigo // a deadline of sockets and timers, which know no other clock
	if t, ok := ctx.Deadline(); ok && t.Before(until) {
		until = t
	}
	return &bounded{Context: ctx, until: until, within: d}
}

// Deadline is never absent.
func (b *bounded) Deadline() (time.Time, bool) { return b.until, true }

// Canceled is the caller's own Done.
func (b *bounded) Canceled() <-chan struct{} { return b.Context.Done() }

// Within is the bound that was asked for.
func (b *bounded) Within() time.Duration { return b.within }

// Done is closed at the deadline, on release, or when the caller leaves.
func (b *bounded) Done() <-chan struct{} { return b.timed().Done() }

// Err tells whether the deadline has passed or the caller has left, whether or
// not anything waits for Done.
func (b *bounded) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch err := b.Context.Err(); {
	case b.real != nil:
		return b.real.Err()
	case err != nil:
		return err
	case b.done:
		return context.Canceled
	case time.Now().Before(b.until): //nolint:forbidigo // see within
		return nil
	}
	return context.DeadlineExceeded
}

func (b *bounded) timed() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.real == nil {
		b.real, b.cancel = context.WithDeadline(b.Context, b.until)
		if b.done {
			b.cancel()
		}
	}
	return b.real
}

// release ends the context, as the cancel function of context.WithTimeout does.
func (b *bounded) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done = true
	if b.cancel != nil {
		b.cancel()
	}
}
