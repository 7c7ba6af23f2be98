package envoy

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"sluice/api/decide"
)

// batch holds calls that are decided together. Its memory is reused.
type batch struct {
	calls []call
	parts []decide.DescriptorPart
	facts []decide.Part
	asked []int // the calls of parts, and then of facts
}

// call is a call in a batch. It has a message or an error in the end.
type call struct {
	stream  *h2stream
	buffers *buffers // nil for one that needs no decision, and after a panic
	message []byte
	err     error
	apart   bool // it waits for another time than the first of its batch
}

// closeness: two calls are decided together if their times differ by at most one closeness-th of the shorter one. The
// earlier deadline applies to both.
const closeness = 8

// answer decides and answers a batch. Callers that wait for very different times are rare. Calls that differ from the
// first one are decided in further batches and goroutines, up to maxBatches.
func (c *h2conn) answer(b *batch) {
	now := clock()
	for rest := b.apart(now); rest != nil; {
		next := rest.apart(now)
		c.mu.Lock()
		c.batches++
		many := c.batches > maxBatches
		c.mu.Unlock()
		one := rest
		work := func() {
			c.decide(one, now)
			c.release(one)
			c.flush()
		}
		if rest = next; many {
			work()
		} else {
			c.spawn(work)
		}
	}
	c.decide(b, now)
	c.release(b)
}

// apart removes from b the calls that cannot be decided together with its first one, and returns them, nil if there are
// none.
func (b *batch) apart(now time.Time) *batch {
	first, found := b.calls[0].stream.wait(now), false
	for i := range b.calls[1:] {
		call := &b.calls[i+1]
		call.apart = !together(first, call.stream.wait(now))
		found = found || call.apart
	}
	if !found {
		return nil
	}
	rest, kept := &batch{}, b.calls[:0]
	for i := range b.calls {
		if call := b.calls[i]; call.apart {
			call.apart = false
			rest.calls = append(rest.calls, call)
		} else {
			kept = append(kept, call)
		}
	}
	clear(b.calls[len(kept):])
	b.calls = kept
	return rest
}

// wait is how long the caller of a stream still waits, -1 if it has not said so.
func (st *h2stream) wait(now time.Time) time.Duration {
	if st.until.IsZero() {
		return -1
	}
	return max(0, st.until.Sub(now))
}

func together(a, b time.Duration) bool {
	less, more := min(a, b), max(a, b)
	return a == b || less > decide.MaxPatience || less >= 0 && more-less <= less/closeness
}

// release gives the memory of a batch back.
func (c *h2conn) release(b *batch) {
	clear(b.calls)
	clear(b.parts)
	clear(b.facts)
	b.calls, b.parts, b.facts, b.asked = b.calls[:0], b.parts[:0], b.facts[:0], b.asked[:0]
	c.mu.Lock()
	c.batches--
	c.idle = b
	c.mu.Unlock()
}

// decide decides calls together, and writes their answers to c.out.
func (c *h2conn) decide(b *batch, now time.Time) {
	s := c.loop.server
	for i := range b.calls {
		s.readCall(&b.calls[i], now)
	}
	ctx := c.waitOf(b, now)
	s.decideDescriptors(ctx, b)
	s.decideFacts(ctx, b)
	for i := range b.calls {
		s.writeCall(&b.calls[i])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range b.calls {
		c.send1(&b.calls[i])
	}
	c.unblock()
}

// waitOf returns the context of a batch: how long the callers wait, and whether the connection is there.
func (c *h2conn) waitOf(b *batch, now time.Time) context.Context {
	var until time.Time
	for i := range b.calls {
		if t := b.calls[i].stream.until; !t.IsZero() && (until.IsZero() || t.Before(until)) {
			until = t
		}
	}
	if !until.IsZero() {
		return &earlier{Context: c.ctx, deadline: lessMargin(until, now)}
	}
	ctx := &earlier{Context: c.ctx, deadline: lessMargin(now.Add(longestCall), now)}
	return decide.WithGatewayPatience(ctx, decide.DefaultPatience) // the deadline is not the caller's
}

// readCall reads the message of a call.
func (s *Server) readCall(one *call, now time.Time) {
	m := one.stream.kind.method()
	sent, err := messageOf(one.stream.message, true)
	switch {
	case err != nil: // onEnd has refused it
		one.err = err
		return
	case m == nil:
		one.message, one.err = s.checkHealth(sent)
		return
	}
	x := s.takeBuffers(m)
	one.buffers = x
	defer s.recoverCall(one)
	x.in.message = append(x.in.message[:0], sent...)
	switch {
	case one.stream.left.Load():
		err = context.Canceled
	case s.deps.Checker.Set() == nil:
		err = decide.ErrNoSet
	case one.stream.wait(now) == 0:
		err = context.DeadlineExceeded
	default:
		x.out.begin()
		err = m.read(s, x)
	}
	if err != nil {
		one.err = x.fail(err)
	}
}

// recoverCall makes a panic that is under way the error of a call.
func (s *Server) recoverCall(one *call) {
	if v := recover(); v != nil {
		s.panicked(one, v, debug.Stack())
	}
}

// panicked gives a call its error after a panic. Its memory may be in use.
func (s *Server) panicked(one *call, v any, stack []byte) {
	one.err = s.recovered(one.stream.kind.method().face, v, stack)
	one.buffers = nil
}

// failed gives a call an error of the engine.
func (s *Server) failed(one *call, err error) {
	if err == nil {
		return
	}
	var p *decide.Panic
	if errors.As(err, &p) {
		s.panicked(one, p.Value, p.Stack)
		return
	}
	one.err = one.buffers.fail(err)
}

// decideDescriptors decides the calls of descriptors of a batch with one call of the store.
func (s *Server) decideDescriptors(ctx context.Context, b *batch) {
	for i := range b.calls {
		if one := &b.calls[i]; one.asking(asksDescriptors) {
			one.buffers.q.Gone = &one.stream.left
			b.asked = append(b.asked, i)
			b.parts = append(b.parts, decide.DescriptorPart{Question: &one.buffers.q, Answer: &one.buffers.a})
		}
	}
	if len(b.parts) == 0 {
		return
	}
	defer s.recoverBatch(b)
	s.deps.Checker.DoDescriptorsEach(ctx, b.parts)
	for k, i := range b.asked {
		s.failed(&b.calls[i], b.parts[k].Err)
	}
}

// asking reports whether a call asks so, and has no error.
func (one *call) asking(what asks) bool {
	return one.err == nil && one.buffers != nil && one.buffers.asks == what
}

// decideFacts decides the calls by facts of a batch with one call of the store. Giving back is rare, and takes two
// calls each.
func (s *Server) decideFacts(ctx context.Context, b *batch) {
	b.asked = b.asked[:0]
	for i := range b.calls {
		switch one := &b.calls[i]; {
		case one.asking(asksFacts):
			one.buffers.single.Gone = &one.stream.left
			b.asked = append(b.asked, i)
			b.facts = append(b.facts, decide.Part{Question: &one.buffers.single, Answer: &one.buffers.a.Answer})
		case one.asking(asksBack):
			s.decideBack(ctx, one)
		}
	}
	if len(b.facts) == 0 {
		return
	}
	defer s.recoverBatch(b)
	s.deps.Checker.DoEach(ctx, b.facts)
	for k, i := range b.asked {
		s.failed(&b.calls[i], b.facts[k].Err)
	}
}

func (s *Server) decideBack(ctx context.Context, one *call) {
	defer s.recoverCall(one)
	s.failed(one, s.decide(ctx, one.buffers))
}

// recoverBatch turns a panic into the error of all calls that were decided together. Nothing is decided again, because
// the store may have charged units.
func (s *Server) recoverBatch(b *batch) {
	if v := recover(); v != nil {
		stack := debug.Stack()
		for _, i := range b.asked {
			s.panicked(&b.calls[i], v, stack)
		}
	}
}

// writeCall writes the answer of a call that was decided, and counts the call.
func (s *Server) writeCall(one *call) {
	x := one.buffers
	if x == nil {
		return
	}
	defer s.recoverCall(one)
	m := one.stream.kind.method()
	if one.err == nil {
		m.write(s, x)
		one.message = x.out.b
	}
	s.deps.Observe.CountCall(faceNames[m.face], x.result)
}

// checkHealth answers a call of the health service.
func (s *Server) checkHealth(sent []byte) ([]byte, error) {
	var r grpc_health_v1.HealthCheckRequest
	if err := proto.Unmarshal(sent, &r); err != nil {
		return nil, status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err)
	}
	answer, err := s.health.Check(context.Background(), &r)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(answer)
}

// send1 sends the answer of a call, unless its caller has left, and gives the memory of the call back.
func (c *h2conn) send1(one *call) {
	st := one.stream
	st.phase = phaseAnswered
	switch {
	case c.closed || c.closing:
	case st.left.Load():
		c.recycle(st) // it has no place on the connection any more
	case one.err != nil:
		c.finish(st, one.err)
	default:
		c.complete(st, one.message)
	}
	if x := one.buffers; x != nil {
		x.out.keep()
		c.loop.server.putBack(x)
	}
}
