package reply

import (
	"strconv"

	"sluice/api/decide"
	"sluice/limiter"
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
	millisecondsInSecond = 1000
)

// Headers calls emit with each client header of an answer, following
// draft-ietf-httpapi-ratelimit-headers-11 for RateLimit-Policy and RateLimit,
// RFC 9110 for Retry-After (none for a deferred request, which is not to be sent
// again), and custom for the X-RateLimit ones. Shadow limits
// do not show. Names of rules are plain by their syntax, so nothing here needs
// escaping. Values are written into scratch, which may be nil, and are valid only
// during the call; Headers gives back the scratch to use next time.
func (st HeaderStyle) Headers(a *decide.Answer, scratch []byte, emit func(name string, value []byte)) []byte {
	send := func(name string, value []byte) {
		scratch = value[:0]
		emit(name, value)
	}
	if ms, ok := a.RetryAfter(); ok && !a.Allowed() && ms != limiter.Never && a.Ticket == "" {
		send(headerRetryAfter, strconv.AppendInt(scratch, CeilSeconds(ms), 10))
	}
	if v := appendPolicies(scratch, a); len(v) > 0 {
		send(headerPolicy, v)
	}
	if v := appendRemainders(scratch, a); len(v) > 0 {
		send(headerRateLimit, v)
	}
	if a.Strictest < 0 {
		return scratch
	}
	d := &a.Limits[a.Strictest].Decision
	send(headerLimit, strconv.AppendInt(scratch, d.Limit, 10))
	send(headerRemaining, strconv.AppendInt(scratch, d.Remaining, 10))
	switch wait := wait(a, d); {
	case wait == limiter.Never:
	case st.ResetDelta:
		send(headerReset, strconv.AppendInt(scratch, CeilSeconds(wait), 10))
	default:
		send(headerReset, strconv.AppendInt(scratch, CeilSeconds(a.At+wait), 10))
	}
	return scratch
}

// wait is for how many ms the headers ask a client to wait because of one limit:
// its retry-after, jitter included, if it denies and waiting helps, else until its
// bucket is empty, or Never. A deferred request is not to be sent again.
func wait(a *decide.Answer, d *limiter.Decision) int64 {
	if d.RetryAfter > 0 && !a.Allowed() && a.Ticket == "" {
		return d.RetryAfter
	}
	return d.Reset
}

// appendPolicies writes one item a limit: its name, units (q) per window of w
// seconds. A window below a second shows as one second. Of a bucket algorithm q
// is the burst and w how long that takes to refill, so that what remains never
// exceeds q; one that never refills shows 0 per window.
func appendPolicies(b []byte, a *decide.Answer) []byte {
	named := 0
	for i := range a.Limits {
		la := &a.Limits[i]
		if la.Shadow || !names(a, i, &named) {
			continue
		}
		b = appendItem(b, la)
		b = append(b, ";q="...)
		q, w := quota(la)
		b = strconv.AppendInt(b, min(q, maxStructured), 10)
		if la.Limit.Algorithm.Slots() {
			b = append(b, `;qu="concurrent-requests"`...)
		}
		b = append(b, ";w="...)
		b = strconv.AppendInt(b, w, 10)
	}
	return b
}

// quota is a limit as RateLimit-Policy has it: units and seconds.
func quota(la *decide.LimitAnswer) (q, w int64) {
	limit, burst, bucketed := la.Decision.InForce(la.Limit.Algorithm)
	switch {
	case !bucketed:
		return limit, CeilSeconds(la.Limit.Window)
	case limit == 0:
		return 0, CeilSeconds(la.Limit.Window)
	}
	// At most limiter.MaxExact, by limiter.Limit.Problems.
	ms := burst * la.Limit.Window
	return burst, max(1, (ms+limit*millisecondsInSecond-1)/(limit*millisecondsInSecond))
}

// appendRemainders writes one item a limit whose figures are known: units left
// (r) and seconds (t) as wait has them. The draft asks that t agree with
// Retry-After where both are sent.
func appendRemainders(b []byte, a *decide.Answer) []byte {
	named := 0
	for i := range a.Limits {
		la := &a.Limits[i]
		if la.Shadow || !names(a, i, &named) || !la.Known {
			continue
		}
		b = appendItem(b, la)
		b = append(b, ";r="...)
		b = strconv.AppendInt(b, min(la.Decision.Remaining, maxStructured), 10)
		if t := wait(a, &la.Decision); t != limiter.Never {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, min(CeilSeconds(t), maxStructured), 10)
		}
	}
	return b
}

// names reports whether limit i is among the maxPolicies that the lists name:
// the strictest, and the first others. named counts those others so far.
func names(a *decide.Answer, i int, named *int) bool {
	if i == a.Strictest {
		return true
	}
	*named++
	return *named < maxPolicies || a.Strictest < 0 && *named == maxPolicies
}

func appendItem(b []byte, la *decide.LimitAnswer) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	b = append(b, '"')
	b = append(b, la.Name()...)
	return append(b, '"')
}

// CeilSeconds rounds milliseconds up to whole seconds.
func CeilSeconds(ms int64) int64 {
	return (ms + millisecondsInSecond - 1) / millisecondsInSecond
}

// The statuses that a gateway answers its client with, as HTTP numbers them.
const (
	statusOK          = 200
	statusAccepted    = 202
	statusTooMany     = 429
	statusUnavailable = 503
)

// Status is the HTTP status that a gateway should answer its client with.
func Status(a *decide.Answer) int {
	switch a.Verdict {
	case decide.Allowed:
		return statusOK
	case decide.Denied:
		return statusTooMany
	case decide.Deferred:
		return statusAccepted
	}
	return statusUnavailable
}
