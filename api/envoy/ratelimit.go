package envoy

import (
	"context"
	"errors"
	"math"
	"net/http"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/limiter"
	"sluice/rules"
)

// readLimit reads a call of the RateLimitService.
func (s *Server) readLimit(x *buffers) error {
	var err error
	if x.call, err = decodeLimit(x.in.message); err != nil {
		return invalid{err}
	}
	return s.askLimit(x)
}

// askLimit says what the call in x.call asks.
func (s *Server) askLimit(x *buffers) error {
	if err := checkLimit(x.call); err != nil {
		return invalid{err}
	}
	set, domain := s.deps.Checker.Set(), x.call.GetDomain()
	if stored := set.ProfileOf(domain); stored != nil {
		p := s.profiles.of(set, stored)
		if p.reader == nil {
			return errUnusable
		}
		return x.askByFacts(p)
	}
	x.out.shows = allHeaders
	if err := x.question(); err != nil {
		return invalid{err}
	}
	x.q.Origin.Face = origins[x.face]
	x.asks, x.known = asksDescriptors, set.HasDomain(domain)
	return nil
}

// writeLimit writes the answer of the RateLimitService.
func (s *Server) writeLimit(x *buffers) {
	if x.asks != asksDescriptors {
		s.writeByFacts(x)
		return
	}
	x.finish(&x.a.Answer, resultUnknownDomain, x.known)
	o := &x.out
	o.b = appendNumber(o.b, 1, code(!x.a.Allowed()))
	for i := range x.a.Statuses {
		st := &x.a.Statuses[i]
		var la, shown *decide.LimitAnswer
		remaining := st.Remaining
		if st.State == decide.StateUnlimited {
			remaining = math.MaxUint32
		}
		if st.Limit >= 0 {
			la = &x.a.Limits[st.Limit]
			if shown = la; la.Hidden() {
				shown, remaining = nil, 0
			}
		}
		o.status(&x.a.Answer, la, shown, st.Over, remaining)
	}
	s.rest(x, x.known, x.a.Statuses)
}

// finish reports the result of an answered call to the observer.
func (x *buffers) finish(a *decide.Answer, unknown string, known bool) {
	switch {
	case !known:
		x.result = unknown
	case a.Allowed():
		x.result = resultAllowed
	case reply.Status(a) == http.StatusServiceUnavailable:
		x.result = resultUnavailable
	default:
		x.result = resultDenied
	}
}

// rest appends what follows the statuses.
func (s *Server) rest(x *buffers, known bool, statuses []decide.DescriptorStatus) {
	a, o := &x.a.Answer, &x.out
	if !known {
		return
	}
	domain := x.call.GetDomain()
	s.deps.Observe.CountDomain(domain, x.result)
	if x.facts.Denied != "" {
		o.field, o.options = 3, false
		o.problemType()
		o.b = appendText(o.b, 5, missingFact(x.facts.Denied))
		o.metadata(6, a, domain, nil)
		return
	}
	o.field, o.options = 3, false
	o.headers(a, s.style)
	if s.deps.LimitHeaders {
		o.limitHeaders(a)
	}
	if !a.Allowed() {
		o.problemType()
		var at int
		o.b, at = begin(o.b, 5)
		o.b = end(reply.AppendDenial(o.b, a, o.shows&namesLimits != 0), at)
	}
	o.metadata(6, a, domain, statuses)
}

var errMixed = errors.New("the descriptors of a domain that a profile reads describe one request: " +
	"is_negative_hits holds for all of them or for none")

// askByFacts says what a call asks whose domain a profile reads: the descriptors describe one request. A limit that
// comes with a descriptor is not used, because several rules may apply.
func (x *buffers) askByFacts(p *usable) error {
	x.out.shows = p.shows
	weight, negative := int64(0), x.call.GetDescriptors()[0].GetIsNegativeHits()
	for _, d := range x.call.GetDescriptors() {
		if d.GetIsNegativeHits() != negative {
			return invalid{errMixed}
		}
		units, _ := addendOf(x.call, d)
		weight = max(weight, int64(units)) //nolint:gosec // checked
	}
	x.readEntries()
	p.reader.ReadEntries(x.lists, &x.facts)
	if x.unasked() {
		return nil
	}
	x.single = decide.Question{Op: limiter.OpTake, Descriptor: x.facts.Descriptor, Weight: weight,
		Dialect: p.stored.Dialect, Origin: decide.Origin{Face: origins[x.face]}}
	if x.asks = asksFacts; negative {
		x.asks = asksBack
	}
	return nil
}

// writeByFacts writes the answer to a call whose domain a profile reads.
func (s *Server) writeByFacts(x *buffers) {
	a := &x.a.Answer
	switch {
	case x.asks != asksNothing:
		x.finish(a, "", true)
	case x.facts.Skip:
		*a = decide.Answer{Verdict: decide.Allowed, Strictest: -1, Limits: a.Limits[:0]}
	default:
		*a = decide.Answer{Verdict: decide.Denied, Strictest: -1, Limits: a.Limits[:0]}
	}
	x.statusesOfOne(a)
	s.rest(x, true, nil)
}

// giveBack refunds the units of a request, and releases the oldest lease of each rule with concurrency. If the store is
// unavailable, nothing is given back and the call passes: an error would not help its caller.
func (s *Server) giveBack(ctx context.Context, q *decide.Question, a *decide.Answer) error {
	var released decide.Answer
	for _, part := range []*decide.Answer{a, &released} {
		if q.Op = limiter.OpRefund; part != a {
			q.Op = limiter.OpRelease // without an id: the oldest
		}
		err := s.deps.Checker.Do(ctx, q, part)
		var failed *limiter.StoreError
		switch {
		case errors.As(err, &failed):
			*part = decide.Answer{Op: q.Op, Verdict: decide.Allowed, Strictest: -1, Limits: part.Limits[:0]}
			if failed.Cause != limiter.CauseOverload {
				part.Degraded = rules.FailOpen
			}
		case err != nil:
			return err
		}
	}
	if a.Strictest < 0 && released.Strictest >= 0 {
		a.Strictest = len(a.Limits) + released.Strictest
	}
	a.Limits = append(a.Limits, released.Limits...)
	if a.Degraded == "" {
		a.Degraded = released.Degraded
	}
	return nil
}

// statusesOfOne appends the strictest decision as the status of every descriptor.
func (x *buffers) statusesOfOne(a *decide.Answer) {
	o, over := &x.out, !a.Allowed()
	o.b = appendNumber(o.b, 1, code(over))
	var la, shown *decide.LimitAnswer
	remaining := int64(0)
	if a.Strictest >= 0 {
		la = &a.Limits[a.Strictest]
	}
	if i := reply.Shown(a); i >= 0 {
		shown, remaining = &a.Limits[i], a.Limits[i].Decision.Remaining
	}
	for range x.call.GetDescriptors() {
		o.status(a, la, shown, over, remaining)
	}
}
