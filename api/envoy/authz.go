package envoy

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"google.golang.org/grpc/codes"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/limiter"
	"sluice/rules/facts"
	"sluice/rules/profile"
)

// readHeaders finds the headers that a profile reads.
func (p *usable) readHeaders(stored *profile.Profile) {
	p.headers = map[string]string{}
	add := func(name string) {
		if name != "" {
			p.headers[strings.ToLower(name)] = http.CanonicalHeaderKey(name)
		}
	}
	sources := func(from []profile.Source) {
		for _, s := range from {
			add(s.Header)
			if s.Cookie != "" {
				add("Cookie")
			}
		}
	}
	f := &stored.Facts
	sources(f.User)
	sources(f.APIKey)
	sources(f.Tier)
	for _, group := range []map[string][]profile.Source{f.Attributes, f.Fields} {
		for _, from := range group {
			sources(from)
		}
	}
	add(stored.ClaimsHeader)
	add(stored.ClientIP.Header)
	if stored.Weight != nil {
		add(stored.Weight.Header)
	}
	if stored.ClientIP.Header != "" {
		p.address = http.CanonicalHeaderKey(stored.ClientIP.Header)
	}
}

// readAuthorization reads a call of the Authorization service.
func (s *Server) readAuthorization(x *buffers) error {
	c := &x.check
	if err := c.decode(string(x.in.message)); err != nil {
		return invalid{err}
	}
	set := s.deps.Checker.Set()
	stored := set.Profile(c.profile)
	if stored == nil {
		x.result = resultUnknownProfile
		return invalid{errors.New("context_extensions must have sluice-profile, the name of a profile of Sluice")}
	}
	p := s.profiles.of(set, stored)
	if p.reader == nil {
		return errUnusable
	}
	x.describe(p)
	if err := p.reader.Read(&x.request, &x.facts); err != nil {
		return invalid{fmt.Errorf("the header %w", err)}
	}
	x.out.shows = p.shows
	if x.unasked() {
		return nil
	}
	x.single = decide.Question{Op: limiter.OpTake, Descriptor: x.facts.Descriptor, Weight: x.facts.Weight,
		Dialect: stored.Dialect, Origin: decide.Origin{Face: origins[x.face], UserAgent: c.header("user-agent"),
			TraceID: decide.TraceOf(c.header("traceparent"))}}
	x.asks = asksFacts
	return nil
}

// writeAuthorization writes the answer of the Authorization service.
func (s *Server) writeAuthorization(x *buffers) {
	a := &x.a.Answer
	switch {
	case x.asks == asksNothing && x.facts.Skip:
		x.out.allow(nil, s.style)
		return
	case x.asks == asksNothing:
		x.out.deny(nil, s.style, http.StatusForbidden, missingFact(x.facts.Denied))
		return
	}
	x.finish(a, "", true)
	if a.Allowed() {
		x.out.allow(a, s.style)
		return
	}
	x.body = reply.AppendShortDenial(x.body[:0], a, x.out.shows&namesLimits != 0)
	x.out.deny(a, s.style, reply.Status(a), x.body)
}

// describe fills in the client's request. Without the header for the client's address, it uses the address of the
// connection to Envoy.
func (x *buffers) describe(p *usable) {
	c := &x.check
	if x.request.Header == nil {
		x.request.Header = map[string][]string{}
	}
	c.headersFor(p, x.request.Header)
	if p.address != "" && len(x.request.Header[p.address]) == 0 && c.source != "" {
		x.request.Header[p.address] = []string{c.source}
	}
	peer, _ := netip.ParseAddr(c.source) // the zero address is a missing fact
	x.request = facts.Request{Method: c.method, Target: c.path, Host: c.host, Header: x.request.Header, Peer: peer}
}

// missingFact is the body of a denial because a fact is missing.
func missingFact(fact string) []byte {
	return reply.Forbidden.Problem("The request lacks the fact " + fact + ", which the profile requires.").
		ForClient(http.StatusText(http.StatusForbidden)).JSON()
}

// Numbers of google.rpc.Code in a CheckResponse.
var statusCodes = map[int]codes.Code{
	http.StatusForbidden: codes.PermissionDenied, http.StatusPaymentRequired: codes.ResourceExhausted,
	http.StatusTooManyRequests:    codes.ResourceExhausted,
	http.StatusServiceUnavailable: codes.Unavailable,
}

// allow writes the CheckResponse of an allowed request. a is nil if the request was not checked.
func (o *response) allow(a *decide.Answer, style reply.HeaderStyle) {
	b, at := begin(o.b, 1) // status: OK
	b = end(b, at)
	o.b, at = begin(b, 3)
	if a != nil {
		o.field, o.options = 6, true
		o.clientHeaders(a, style)
	}
	o.b = end(o.b, at)
	if a != nil {
		o.metadata(4, a, "", nil)
	}
}

// deny writes the CheckResponse of a denied request. a is nil if the request was not checked.
func (o *response) deny(a *decide.Answer, style reply.HeaderStyle, status int, body []byte) {
	b, at := begin(o.b, 1)
	o.b = end(appendNumber(b, 1, uint64(statusCodes[status])), at)
	o.b, at = begin(o.b, 2)
	b, in := begin(o.b, 1)
	o.b = end(appendNumber(b, 1, uint64(status)), in) //nolint:gosec // a status of HTTP
	o.field, o.options = 2, true
	if a != nil {
		o.clientHeaders(a, style)
	}
	o.problemType()
	o.always("Cache-Control", "no-store")
	o.b = end(appendText(o.b, 3, body), at)
	if a != nil {
		o.metadata(4, a, "", nil)
	}
}

// clientHeaders adds the headers that the faces for gateways send.
func (o *response) clientHeaders(a *decide.Answer, style reply.HeaderStyle) {
	o.headers(a, style)
	if a.Degraded != "" {
		o.addText(headerMode, a.Degraded)
	}
	if ms := a.Delay(); ms > 0 {
		o.addNumber(headerDelay, ms)
	}
	if a.Lease != "" {
		o.addText(headerLease, a.Lease)
	}
}
