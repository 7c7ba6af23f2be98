package envoy

import (
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/limiter"
	"sluice/rules/profile"
)

// response writes the message of an answer.
type response struct {
	message *outbound // nil while no call is answered
	b       []byte
	scratch []byte
	// put is addHeader; a method value would be allocated for each call.
	put func(name string, value []byte)
	// Headers are written to the field with this number, as HeaderValueOption or as HeaderValue. shows holds the
	// headers of the profile.
	field   protowire.Number
	options bool
	shows   headerSet
}

// begin starts the message of the next answer.
func (o *response) begin() {
	if o.message == nil {
		o.message = (*outbound)(outPool.Get(0))
	}
	o.b = (*o.message)[:0]
}

// take returns the message.
func (o *response) take() *outbound {
	m := o.message
	*m = o.b
	o.message, o.b = nil, nil
	return m
}

// keep keeps the memory of a message that was copied for the next answer.
func (o *response) keep() {
	if cap(o.b) > maxAnswer {
		o.message = nil
	} else if o.message != nil && o.b != nil {
		*o.message = o.b[:0]
	}
	o.b = nil
}

// headerSet has bit i for profile.ClientHeaders[i].
type headerSet uint16

const allHeaders = math.MaxUint16

// headersOf returns the headers that a profile sends.
func headersOf(p *profile.Profile) (s headerSet) {
	for i, header := range profile.ClientHeaders {
		if p.Sends(header) {
			s |= 1 << i
		}
	}
	return s
}

// namesLimits are the headers that have the names of limits. Without any of them a denial does not have them either.
var namesLimits = headersOf(&profile.Profile{Headers: []string{"RateLimit", "RateLimit-Policy"}})

// Headers of the answers in addition to those of package reply. The first three belong to the endpoints for gateways,
// the others to envoyproxy/ratelimit.
const (
	headerMode      = "X-RateLimit-Mode"
	headerDelay     = "X-RateLimit-Delay-Ms"
	headerLease     = "X-RateLimit-Lease"
	headerLimit     = "RateLimit-Limit"
	headerRemaining = "RateLimit-Remaining"
	headerReset     = "RateLimit-Reset"
)

// overwrite is HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD.
const overwrite = 2

// addHeader adds a header for the client, unless the profile hides it.
func (o *response) addHeader(name string, value []byte) {
	// One of a dialect, or of envoyproxy/ratelimit, is not among them.
	if i := slices.Index(profile.ClientHeaders, name); i >= 0 && o.shows&(1<<i) == 0 {
		return
	}
	b, at := begin(o.b, o.field)
	if o.options {
		var in int
		b, in = begin(b, 1)
		b = end(appendText(appendText(b, 1, name), 2, value), in)
		b = appendNumber(b, 3, overwrite)
	} else {
		b = appendText(appendText(b, 1, name), 2, value)
	}
	o.b = end(b, at)
}

// addText is addHeader for a text.
func (o *response) addText(name, value string) {
	o.scratch = append(o.scratch[:0], value...)
	o.addHeader(name, o.scratch)
}

// always adds a header that no profile hides.
func (o *response) always(name, value string) {
	shows := o.shows
	o.shows = allHeaders
	o.addText(name, value)
	o.shows = shows
}

// problemType adds the type of the body of a denial. Without it Envoy sends text/plain.
func (o *response) problemType() { o.always("Content-Type", "application/problem+json") }

func (o *response) addNumber(name string, n int64) {
	o.scratch = strconv.AppendInt(o.scratch[:0], n, 10)
	o.addHeader(name, o.scratch)
}

// headers adds the headers of the JSON answer.
func (o *response) headers(a *decide.Answer, style reply.HeaderStyle) {
	o.scratch = style.Headers(a, o.scratch[:0], o.put)
}

// limitHeaders adds the headers of envoyproxy/ratelimit.
func (o *response) limitHeaders(a *decide.Answer) {
	shown := reply.Shown(a)
	if shown < 0 || !a.Limits[shown].Known {
		return
	}
	defer func(shows headerSet) { o.shows = shows }(o.shows)
	o.shows = allHeaders // whoever set this wants to see them
	la := &a.Limits[shown]
	limit, _, _ := la.Decision.InForce(la.Limit.Algorithm)
	o.addNumber(headerLimit, limit)
	o.addNumber(headerRemaining, la.Decision.Remaining)
	if ms := wait(a, la, !a.Allowed()); ms != limiter.Never {
		o.addNumber(headerReset, reply.CeilSeconds(ms))
	}
}

// Codes of a RateLimitResponse.
const (
	codeOK   = 1
	codeOver = 2
)

func code(over bool) uint64 {
	if over {
		return codeOver
	}
	return codeOK
}

// status appends one status of a RateLimitResponse. la is the limit that decided, nil if none applies, and shown the
// one whose figures Envoy may send to its client, nil for none.
func (o *response) status(a *decide.Answer, la, shown *decide.LimitAnswer, over bool, remaining int64) {
	b, at := begin(o.b, 2)
	b = appendNumber(b, 1, code(over))
	if shown != nil {
		b = appendLimit(b, shown)
	}
	b = appendNumber(b, 3, capped(remaining))
	if !over {
		la = shown
	}
	if la != nil {
		if ms := wait(a, la, over); ms > 0 {
			var in int
			b, in = begin(b, 4)
			b = end(appendNumber(b, 1, uint64(reply.CeilSeconds(ms))), in) //nolint:gosec // not negative
		}
	}
	o.b = end(b, at)
}

// appendLimit appends the limit of a status.
func appendLimit(b []byte, la *decide.LimitAnswer) []byte {
	limit, _, _ := la.Decision.InForce(la.Limit.Algorithm)
	unit, multiplier := unitOf(la.Limit.Window)
	if p := la.Period; p != nil {
		unit, multiplier = p.Unit.Number, p.Multiplier
	}
	if la.Limit.Algorithm.Traits().Slots { // at once, not per window
		unit, multiplier = 0, 0
	}
	b, at := begin(b, 2)
	b = appendNumber(appendNumber(b, 1, capped(limit)), 2, unit)
	b = appendText(b, 3, la.Rule)
	if multiplier > 1 {
		var in int
		b, in = begin(b, 4)
		b = end(appendNumber(b, 1, uint64(multiplier)), in)
	}
	return end(b, at)
}

// capped fits a figure into the 32 bits of the message.
func capped(n int64) uint64 { return uint64(min(max(n, 0), math.MaxUint32)) }

// wait is the time of a status in ms, or limiter.Never. Over the limit it is the retry-after, because Envoy makes its
// Retry-After of it, otherwise the time until nothing counts as spent. In the message it has whole seconds, rounded up,
// because Envoy drops fractions.
func wait(a *decide.Answer, la *decide.LimitAnswer, over bool) int64 {
	d := &la.Decision
	switch {
	case !over && !la.Known:
		return 0
	case !over:
		return d.Reset
	case la.Known && d.RetryAfter != 0:
		return d.RetryAfter
	case la.Known && d.Reset != 0:
		return d.Reset
	}
	if ms, ok := a.RetryAfter(); ok && ms > 0 {
		return ms
	}
	return millisecondsInSecond // the estimate that decide.Answer.RetryAfter has too
}

const millisecondsInSecond = 1000
