package redisstore

import (
	"context"
	"slices"
	"time"

	"sluice/limiter"
)

// Tracer records the script calls of traced requests. It is safe for concurrent use and must not block.
type Tracer interface {
	// Traced returns what stands for the request of ctx, nil if it is not recorded.
	Traced(ctx context.Context) Traced
	// Called receives a script call that carried such requests, after its end and before they are answered. It keeps no
	// part of c.
	Called(c *TracedCall)
}

// Traced stands for a request in a Tracer, or for several that arrived together.
type Traced any

// TracedCall is a script call. On a cluster it is one for each of several hash slots, sent together.
type TracedCall struct {
	Began, Ended time.Time
	// Requests is how many it carried. Failed is how many of them it did not decide, and Cause why it did not decide the
	// first of those.
	Requests, Failed int
	Cause            limiter.Cause
	// Carried are the traced requests, at least one.
	Carried []TracedWait
}

// TracedWait is a request, or several that arrived together, and how long they waited for their call.
type TracedWait struct {
	Traced Traced
	Wait   time.Duration
}

// trace marks b, so that the Tracer receives the call that carries it, if the request of ctx is traced. There must be a
// Tracer.
func (s *Store) trace(ctx context.Context, b *batch) {
	if b.traced = s.opt.Trace.Traced(ctx); b.traced != nil {
		b.arrived = wallTime()
	}
}

// traceCall passes a call that carried batches and has ended to the Tracer, unless none of them is traced.
func (s *Store) traceCall(began time.Time, batches ...*batch) {
	if !slices.ContainsFunc(batches, func(b *batch) bool { return b.traced != nil }) {
		return
	}
	c := TracedCall{Began: began, Ended: wallTime()}
	for _, b := range batches {
		if b.traced != nil {
			c.Carried = append(c.Carried, TracedWait{b.traced, max(0, began.Sub(b.arrived))})
		}
	}
	for _, b := range batches {
		c.Requests += len(b.requests)
		for i := range b.requests {
			if err := b.requests[i].Err; err != nil {
				if c.Failed == 0 {
					c.Cause = limiter.CauseOf(err)
				}
				c.Failed++
			}
		}
	}
	s.opt.Trace.Called(&c)
}
