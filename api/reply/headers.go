package reply

import (
	"strconv"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
)

// HeaderStyle is the form of the client headers. With the zero value,
// X-RateLimit-Reset is in seconds since the epoch.
type HeaderStyle struct {
	// ResetDelta makes X-RateLimit-Reset seconds from now.
	ResetDelta bool
}

// Values of headers in answers of the API: media types, and values that forbid sniffing and caching.
const (
	JSONType    = "application/json"
	ProblemType = "application/problem+json"
	NoSniff     = "nosniff"
	NoStore     = "no-store"
)

// maxStructured is the largest integer of a structured field (RFC 9651, section
// 3.3.1: fifteen digits). Larger figures are sent as this one.
const maxStructured = 999_999_999_999_999

// maxPolicies is the maximum number of limits in the two lists, always including the
// strictest: proxies reject responses with headers of more than a few KiB.
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

// Headers calls emit with each client header of an answer: RateLimit-Policy and RateLimit as in
// draft-ietf-httpapi-ratelimit-headers-11, Retry-After as in RFC 9110 (not for a deferred request, which must not be
// sent again), and the customary X-RateLimit headers. Shadow limits and limits of hidden rules are omitted. The dialect
// of the request adds headers. Names of rules need no escaping. Values are written into scratch, which may be nil, and
// are valid only during the call; Headers returns the scratch for the next call.
func (st HeaderStyle) Headers(a *decide.Answer, scratch []byte, emit func(name string, value []byte)) []byte {
	send := func(name string, value []byte) {
		scratch = value[:0]
		emit(name, value)
	}
	if !a.Allowed() && a.Verdict != decide.Deferred {
		switch ms, ok := a.RetryAfter(); {
		case !ok:
		case ofSDK(a) && (ms == limiter.Never || ms > maxSDKWait):
			send(headerShouldRetry, append(scratch, "false"...))
		case ms != limiter.Never:
			send(headerRetryAfter, strconv.AppendInt(scratch, CeilSeconds(ms), 10))
			if ofSDK(a) {
				send(headerRetryAfterMS, strconv.AppendInt(scratch, ms, 10))
			}
		}
	}
	if a.Dialect != "" && ofSDK(a) {
		scratch = dialectHeaders(a, scratch, send)
	}
	if v := appendPolicies(scratch, a); len(v) > 0 {
		send(headerPolicy, v)
	}
	if v := appendRemainders(scratch, a); len(v) > 0 {
		send(headerRateLimit, v)
	}
	strictest := Shown(a)
	if strictest < 0 {
		return scratch
	}
	d := &a.Limits[strictest].Decision
	send(headerLimit, strconv.AppendInt(scratch, d.Limit, 10))
	send(headerRemaining, strconv.AppendInt(scratch, d.Remaining, 10))
	if !a.Allowed() && a.Verdict != decide.Deferred {
		d = &a.Limits[a.Strictest].Decision // its wait is the wait of the answer, even if a hidden rule denied
	}
	switch wait := wait(a, d); {
	case wait == limiter.Never:
	case st.ResetDelta:
		send(headerReset, strconv.AppendInt(scratch, CeilSeconds(wait), 10))
	default:
		send(headerReset, strconv.AppendInt(scratch, CeilSeconds(a.At+wait), 10))
	}
	return scratch
}

// Shown returns the index of the limit whose figures clients receive: the strictest limit of a rule that is not hidden,
// -1 if there is none.
func Shown(a *decide.Answer) int {
	if a.Strictest < 0 || !a.Limits[a.Strictest].Hidden() {
		return a.Strictest
	}
	strictest := -1
	for i := range a.Limits {
		if la := &a.Limits[i]; !la.Shadow && !la.Hidden() && la.Known &&
			(strictest < 0 || la.Decision.StricterThan(a.Limits[strictest].Decision)) {
			strictest = i
		}
	}
	return strictest
}

// wait is how many ms one limit asks a client to wait: its retry-after with jitter if it
// denies, otherwise its reset, or Never. A deferred request must not be sent again. If no
// wait helps a denial, its limits name none: a client would take their resets for one.
func wait(a *decide.Answer, d *limiter.Decision) int64 {
	ms, _ := a.RetryAfter()
	switch {
	case a.Allowed() || a.Verdict == decide.Deferred:
		return d.Reset
	case ms == limiter.Never:
		return limiter.Never
	case d.RetryAfter != 0:
		return d.RetryAfter
	}
	return d.Reset
}

// appendPolicies writes one item for each limit: its name, and q units per window of w
// seconds. A window below one second is sent as one second. For a bucket algorithm q is
// the burst and w the time to refill it, so that the remaining units never exceed q. If
// the bucket never refills, q is 0.
func appendPolicies(b []byte, a *decide.Answer) []byte {
	named := 0
	for i := range a.Limits {
		la := &a.Limits[i]
		if la.Shadow || la.Hidden() || !names(a, i, &named) {
			continue
		}
		limit, burst, bucketed := la.Decision.InForce(la.Limit.Algorithm)
		q, w := limit, CeilSeconds(la.Limit.Window)
		if bucketed && limit > 0 {
			// At most limiter.MaxExact; see limiter.Limit.Problems.
			ms := burst * la.Limit.Window
			q, w = burst, max(1, (ms+limit*millisecondsInSecond-1)/(limit*millisecondsInSecond))
		}
		b = appendItem(b, la)
		b = append(b, ";q="...)
		b = strconv.AppendInt(b, min(q, maxStructured), 10)
		if la.Limit.Algorithm.Traits().Slots {
			b = append(b, `;qu="concurrent-requests"`...)
		}
		b = append(b, ";w="...)
		b = strconv.AppendInt(b, w, 10)
	}
	return b
}

// appendRemainders writes one item for each limit with known figures: the remaining
// units r, and the seconds t of wait. The draft requires that t agrees with Retry-After
// if both are sent.
func appendRemainders(b []byte, a *decide.Answer) []byte {
	named := 0
	for i := range a.Limits {
		la := &a.Limits[i]
		if la.Shadow || la.Hidden() || !names(a, i, &named) || !la.Known {
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

// names reports whether limit i is among the maxPolicies limits in the lists: the
// strictest, and the first others. named is the number of others so far.
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

// The HTTP status codes that a gateway sends to its client.
const (
	statusOK          = 200
	statusAccepted    = 202
	statusPayment     = 402
	statusForbidden   = 403
	statusUnavailable = 503
)

// Status returns the HTTP status code that a gateway should send to its client.
func Status(a *decide.Answer) int {
	switch a.Verdict {
	case decide.Allowed:
		return statusOK
	case decide.Denied:
		if a.Strictest >= 0 && a.Strictest < len(a.Limits) {
			if of := a.Limits[a.Strictest].Of; of != nil && of.Denial != nil {
				return int(of.Denial.Status)
			}
		}
		return rules.DefaultDenial
	case decide.Deferred:
		return statusAccepted
	}
	return statusUnavailable
}
