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
	context.Context // the caller's
	bound           limiter.Bound

	mu     sync.Mutex
	real   context.Context //nolint:containedctx // the timer of this very context
	cancel context.CancelFunc
	done   bool // released
}

var _ limiter.Bounded = (*bounded)(nil)

// within bounds ctx by d from now. The caller calls release when done with it.
func within(ctx context.Context, d time.Duration) *bounded {
	start := time.Now() //nolint:forbidigo // a deadline of sockets and timers, which know no other clock
	until := start.Add(d)
	if t, ok := ctx.Deadline(); ok && t.Before(until) {
		until = t
	}
	return &bounded{Context: ctx, bound: limiter.Bound{Start: start, Deadline: until, Canceled: ctx.Done()}}
}

// Bound is the bound itself.
func (b *bounded) Bound() limiter.Bound { return b.bound }

// Deadline is never absent.
func (b *bounded) Deadline() (time.Time, bool) { return b.bound.Deadline, true }

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
	case time.Now().Before(b.bound.Deadline): //nolint:forbidigo // see within
		return nil
	}
	return context.DeadlineExceeded
}

func (b *bounded) timed() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.real == nil {
		b.real, b.cancel = context.WithDeadline(b.Context, b.bound.Deadline)
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
