package envoy

import (
	"context"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"sluice/api/decide"
	"sluice/rules/entries"
	"sluice/rules/facts"
)

// method is a call of Envoy: read says what the message in the buffers asks, and write writes the answer to what was
// decided. In between, the engine decides.
type method struct {
	face  face
	read  func(*Server, *buffers) error
	write func(*Server, *buffers)
}

var (
	limitCall         = method{rateLimit, (*Server).readLimit, (*Server).writeLimit}
	authorizationCall = method{authorization, (*Server).readAuthorization, (*Server).writeAuthorization}
)

// asks is what a call asks of the engine.
type asks uint8

const (
	asksNothing     asks = iota // the facts decide, see unasked
	asksDescriptors             // x.q
	asksFacts                   // x.single
	asksBack                    // to give x.single back
)

// askAndWrite answers a call.
func (s *Server) askAndWrite(ctx context.Context, x *buffers, read func(*Server, *buffers) error,
	write func(*Server, *buffers)) error {
	if err := read(s, x); err != nil {
		return err
	}
	if err := s.decide(ctx, x); err != nil {
		return err
	}
	write(s, x)
	return nil
}

// decide decides what a call asks.
func (s *Server) decide(ctx context.Context, x *buffers) error {
	switch x.asks {
	case asksDescriptors:
		return s.deps.Checker.DoDescriptors(ctx, &x.q, &x.a)
	case asksFacts:
		return s.deps.Checker.Do(ctx, &x.single, &x.a.Answer)
	case asksBack:
		return s.giveBack(ctx, &x.single, &x.a.Answer)
	case asksNothing:
	}
	return nil
}

// unasked reports whether the profile decides a request by its facts, without the engine.
func (x *buffers) unasked() bool {
	switch {
	case x.facts.Skip:
		x.result = resultSkipped
	case x.facts.Denied != "":
		x.result = resultMissingFact
	default:
		return false
	}
	return true
}

// buffers is the pooled memory of one call.
type buffers struct {
	face    face
	asks    asks
	known   bool // the domain has rules or a profile
	in      inbound
	call    *ratelimitv3.RateLimitRequest
	check   checkCall
	q       decide.DescriptorQuestion
	a       decide.DescriptorAnswer
	single  decide.Question // by facts
	request facts.Request
	facts   facts.Facts
	out     response
	entries []entries.Entry   // of all descriptors
	lists   [][]entries.Entry // of each descriptor: parts of entries
	body    []byte
	result  string
}

func newBuffers() *buffers {
	x := &buffers{}
	x.out.put = x.out.addHeader
	return x
}

// takeBuffers returns the memory of a call. Its result is an error until it has another.
func (s *Server) takeBuffers(m *method) *buffers {
	x, _ := s.buffers.Get().(*buffers)
	x.face, x.asks, x.result = m.face, asksNothing, resultError
	return x
}

// maxPooled keeps the memory of the largest calls out of the pool.
const maxPooled = 256

func (s *Server) putBack(x *buffers) {
	if cap(x.in.message) > maxAnswer || cap(x.entries) > maxPooled || cap(x.a.Limits) > maxPooled ||
		cap(x.check.headers) > maxPooled {
		return
	}
	clear(x.in.message)
	x.in.message, x.call = x.in.message[:0], nil
	x.check.forget()
	clear(x.q.Descriptors[:cap(x.q.Descriptors)])
	x.q = decide.DescriptorQuestion{Descriptors: x.q.Descriptors[:0]}
	x.a.Forget()
	clear(x.a.Statuses)
	x.a.Statuses = x.a.Statuses[:0]
	x.single, x.request = decide.Question{}, facts.Request{Header: x.request.Header}
	clear(x.request.Header)
	x.facts.Forget()
	clear(x.entries)
	clear(x.lists)
	s.buffers.Put(x)
}
