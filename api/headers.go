package api

import (
	"strconv"

	"sluice/limiter"
	"sluice/rules"
)

// HeaderStyle chooses between forms of the client headers. The zero value gives
// X-RateLimit-Reset as seconds since the epoch.
type HeaderStyle struct {
	// ResetDelta gives X-RateLimit-Reset as seconds from now.
	ResetDelta bool
}

// maxStructured is the largest integer of a structured field (RFC 9651, section
// 3.3.1: fifteen digits). Larger figures are shown as it.
const maxStructured = 999_999_999_999_999

// maxPolicies is how many limits the two lists name at most, the strictest
// always among them: proxies refuse answers whose headers outgrow a few KiB.
const maxPolicies = 16

// The client headers, in the order in which Headers emits them.
const (
	headerRetryAfter     = "Retry-After"
	headerPolicy         = "RateLimit-Policy"
	headerRateLimit      = "RateLimit"
	headerLimit          = "X-RateLimit-Limit"
	headerRemaining      = "X-RateLimit-Remaining"
	headerReset          = "X-RateLimit-Reset"
	closedRetryAfterMS   = 1000
	millisecondsInSecond = 1000
)

// Headers calls emit with each client header of an answer, following
// draft-ietf-httpapi-ratelimit-headers-11 for RateLimit-Policy and RateLimit,
// RFC 9110 for Retry-After (none for a deferred request, which is not to be sent
// again), and custom for the X-RateLimit ones. Shadow limits
// do not show. Names of rules are plain by their syntax, so nothing here needs
// escaping. The value is valid only during the call.
func (st HeaderStyle) Headers(a *Answer, emit func(name string, value []byte)) {
	send := func(name string, value []byte) {
		a.scratch = value[:0]
		emit(name, value)
	}
	if ms, ok := a.retryAfter(); ok && !a.Allowed && ms != limiter.Never && a.Ticket == "" {
		send(headerRetryAfter, strconv.AppendInt(a.scratch, ceilSeconds(ms), 10))
	}
	if v := appendPolicies(a.scratch, a); len(v) > 0 {
		send(headerPolicy, v)
	}
	if v := appendRemainders(a.scratch, a); len(v) > 0 {
		send(headerRateLimit, v)
	}
	if a.Strictest < 0 {
		return
	}
	d := &a.Limits[a.Strictest].Decision
	send(headerLimit, strconv.AppendInt(a.scratch, d.Limit, 10))
	send(headerRemaining, strconv.AppendInt(a.scratch, d.Remaining, 10))
	switch {
	case d.Reset == limiter.Never:
	case st.ResetDelta:
		send(headerReset, strconv.AppendInt(a.scratch, ceilSeconds(d.Reset), 10))
	default:
		send(headerReset, strconv.AppendInt(a.scratch, ceilSeconds(a.At+d.Reset), 10))
	}
}

// retryAfter is the answer's own retry-after in ms, false when it has none.
func (a *Answer) retryAfter() (int64, bool) {
	if a.Strictest >= 0 {
		return a.Limits[a.Strictest].Decision.RetryAfter, true
	}
	// A closed fail mode cannot know when the store will be back; a second is a
	// polite guess, as RFC 9110 section 10.2.3 allows.
	return closedRetryAfterMS, !a.Allowed
}

// appendPolicies writes one item a limit: its name, units (q) per window of w
// seconds. A rate's window below a second shows as one second.
func appendPolicies(b []byte, a *Answer) []byte {
	named := 0
	for i := range a.Limits {
		la := &a.Limits[i]
		if la.Shadow || !a.names(i, &named) {
			continue
		}
		b = appendItem(b, la)
		b = append(b, ";q="...)
		b = strconv.AppendInt(b, min(la.Limit.Count, maxStructured), 10)
		if la.Limit.Algorithm == limiter.Concurrency {
			b = append(b, `;qu="concurrent-requests"`...)
		}
		b = append(b, ";w="...)
		b = strconv.AppendInt(b, ceilSeconds(la.Limit.Window), 10)
	}
	return b
}

// appendRemainders writes one item a limit whose figures are known: units left
// (r) and seconds (t) until the denied request would fit or, when it was
// allowed, until the bucket is empty. The draft asks that t agree with
// Retry-After where both are sent.
func appendRemainders(b []byte, a *Answer) []byte {
	named := 0
	for i := range a.Limits {
		la := &a.Limits[i]
		if la.Shadow || !a.names(i, &named) || !la.Known {
			continue
		}
		b = appendItem(b, la)
		b = append(b, ";r="...)
		b = strconv.AppendInt(b, min(la.Decision.Remaining, maxStructured), 10)
		t := la.Decision.Reset
		if la.Decision.RetryAfter > 0 {
			t = la.Decision.RetryAfter
		}
		if t != limiter.Never {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, min(ceilSeconds(t), maxStructured), 10)
		}
	}
	return b
}

// names reports whether limit i is among the maxPolicies that the lists name:
// the strictest, and the first others. named counts those others so far.
func (a *Answer) names(i int, named *int) bool {
	if i == a.Strictest {
		return true
	}
	*named++
	return *named < maxPolicies || a.Strictest < 0 && *named == maxPolicies
}

func appendItem(b []byte, la *LimitAnswer) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	b = append(b, '"')
	b = append(b, la.policyName()...)
	return append(b, '"')
}

// policyName is the name by which clients know a limit.
func (la *LimitAnswer) policyName() string {
	if la.Rule == "" {
		return rules.DirectRule
	}
	return la.Rule
}

// ceilSeconds rounds milliseconds up to whole seconds.
func ceilSeconds(ms int64) int64 {
	return (ms + millisecondsInSecond - 1) / millisecondsInSecond
}
