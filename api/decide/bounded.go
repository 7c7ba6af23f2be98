package decide

import (
	"cmp"
	"context"
	"sync"
	"time"

	"sluice/limiter"
)

// bounded is a limiter.Bounded: context.WithTimeout, but the timer starts only when Done is called. A store that
// watches deadlines with its own timer never calls it, and a timer for each check would cost a tenth of the check.
type bounded struct {
	context.Context // the caller's
	bound           limiter.Bound

	mu     sync.Mutex
	real   context.Context //nolint:containedctx // the timer of this very context
	cancel context.CancelFunc
	done   bool // released
}

var _ limiter.Bounded = (*bounded)(nil)

// The patience of a caller is how long it waits for an answer. A request waits for its turn for four fifths of it; the
// rest is for the way back, so that the caller receives a denial before it stops waiting.
const (
	// DefaultPatience is the patience of a caller that does not state one. The examples for gateways wait as long.
	DefaultPatience = 100 * time.Millisecond
	// MaxPatience is the longest patience that counts: a longer queue only moves the wait.
	MaxPatience  = time.Second
	turnOfFifths = 4
)

// TooLate reports whether a request that waited to be read has waited for as long as it may wait for its turn: its
// caller said that it waits for said. A caller who says nothing, 0, may wait for longer than DefaultPatience. Nothing
// is too late for it: with thousands of such callers who ask again at once, a node would only deny.
func TooLate(waited, said time.Duration) bool { return said > 0 && waited >= turnOf(said) }

// turnOf is how long a request waits for its turn whose caller waits for d.
func turnOf(d time.Duration) time.Duration {
	return min(max(d, 0), MaxPatience) * turnOfFifths / (turnOfFifths + 1)
}

// callerWait is what a caller has said of how long it waits.
type callerWait struct {
	until time.Time
	// hard: nothing is waited for after until, and not only no turn.
	hard bool
}

type patienceKey struct{}

// WithPatience returns a context for requests of a caller that waits for d from now on, 0 < d <= MaxPatience. Like a
// deadline of ctx, it bounds the whole request.
func WithPatience(ctx context.Context, d time.Duration) context.Context {
	return withPatience(ctx, callerWait{until: time.Now().Add(d), hard: true}) //nolint:forbidigo // see within
}

// WithGatewayPatience is WithPatience for a d that clients of the caller might have set, because gateways pass headers
// on. It only shortens the wait for a turn, so that a client can neither cut the store short, which would let a fail
// mode decide, nor make a request outlast its gateway.
func WithGatewayPatience(ctx context.Context, d time.Duration) context.Context {
	d = min(d, DefaultPatience)
	return withPatience(ctx, callerWait{until: time.Now().Add(d)}) //nolint:forbidigo // see within
}

func withPatience(ctx context.Context, p callerWait) context.Context {
	return context.WithValue(ctx, patienceKey{}, p)
}

// within bounds ctx by d from now, and by the patience of its caller. The caller calls release afterwards.
func (c *Checker) within(ctx context.Context, d time.Duration) *bounded {
	start := time.Now() //nolint:forbidigo // a deadline of sockets and timers, which know no other clock
	b := limiter.Bound{Start: start, Deadline: start.Add(d), Canceled: ctx.Done()}
	wait := cmp.Or(c.opt.Patience, DefaultPatience)
	caller, said := ctx.Value(patienceKey{}).(callerWait)
	if said {
		wait = caller.until.Sub(start)
		if caller.hard {
			b.Hard = caller.until
		}
	}
	if t, ok := ctx.Deadline(); ok {
		if b.Hard.IsZero() || t.Before(b.Hard) {
			b.Hard = t
		}
		if left := t.Sub(start); !said || left < wait {
			wait = left
		}
	}
	if !b.Hard.IsZero() && b.Hard.Before(b.Deadline) {
		b.Deadline = b.Hard
	}
	b.Turn = start.Add(turnOf(wait))
	return &bounded{Context: ctx, bound: b}
}

// stay makes b outlast the caller, within the same times.
func (b *bounded) stay() {
	b.Context, b.bound.Canceled = context.WithoutCancel(b.Context), nil
}

// Bound implements limiter.Bounded.
func (b *bounded) Bound() limiter.Bound { return b.bound }

// Deadline is never absent.
func (b *bounded) Deadline() (time.Time, bool) { return b.bound.Deadline, true }

// Done is closed at the deadline, on release, or when the caller leaves.
func (b *bounded) Done() <-chan struct{} { return b.timed().Done() }

// Err returns why the context has ended, nil if it has not, whether or not Done was called.
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

// timeout returns the time for calls: longer if any of them goes to another region. It is 0 for no bound.
func (c *Checker) timeout(calls []limiter.Call) time.Duration {
	if c.opt.Timeout <= 0 {
		return 0
	}
	timeout := c.opt.Timeout
	if c.opt.Regions != nil {
		for i := range calls {
			timeout = max(timeout, c.opt.Regions.TimeFor(calls[i].Request.Asks))
		}
	}
	return timeout
}
