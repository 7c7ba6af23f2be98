package api

import (
	"strconv"
	"unicode/utf8"

	"sluice/limiter"
	"sluice/rules"
)

// appendAnswer writes an answer as the JSON document CheckAnswer of
// openapi.yaml. Figures that nobody knows are left out rather than invented.
func appendAnswer(b []byte, a *Answer, st HeaderStyle) []byte {
	b = append(b, `{"allowed":`...)
	b = strconv.AppendBool(b, a.Allowed)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(a.Status), 10)
	b = appendTopFigures(b, a)
	b = append(b, `,"degraded":`...)
	b = appendNullable(b, a.Degraded)
	b = append(b, `,"rule":`...)
	b = appendNullable(b, a.rule())
	b = appendAbove(b, a.Soft, a.Elastic)
	if a.Replayed {
		b = append(b, `,"replayed":true`...)
	}
	if a.Lease != "" {
		b = append(b, `,"lease":"`...)
		b = append(append(b, a.Lease...), '"')
	}
	if a.Reservation != "" {
		b = append(b, `,"reservation":"`...)
		b = append(append(b, a.Reservation...), '"')
		b = appendMember(b, "expires_in_ms", a.ExpiresIn)
	}
	if a.Ticket != "" {
		b = append(b, `,"ticket":`...)
		b = appendJSONString(b, a.Ticket)
	}
	if a.NotDeferred != "" {
		b = append(b, `,"not_deferred":"`...)
		b = append(append(b, a.NotDeferred...), '"')
	}
	b = append(b, `,"limits":[`...)
	for i := range a.Limits {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLimit(b, a.Op, &a.Limits[i])
	}
	b = append(b, `],"headers":`...)
	b = appendHeaders(b, a, st)
	if !a.Allowed && a.spends() {
		b = append(b, `,"body":`...)
		b = appendDenial(b, a)
	}
	return append(b, '}')
}

// spends: the operation is one whose outcome a gateway passes to its client.
func (a *Answer) spends() bool {
	return a.Op == limiter.OpTake || a.Op == limiter.OpPeek || a.Op == limiter.OpCharge
}

// rule names the limit that decided: the strictest, or the closed one.
func (a *Answer) rule() string {
	if a.Strictest >= 0 {
		return a.Limits[a.Strictest].Rule
	}
	for i := range a.Limits {
		if la := &a.Limits[i]; !la.Shadow && (a.Allowed || la.Degraded == rules.FailClosed) {
			return la.Rule
		}
	}
	return ""
}

func appendTopFigures(b []byte, a *Answer) []byte {
	if a.Strictest < 0 {
		if ms, ok := a.retryAfter(); ok {
			b = appendMember(b, "retry_after_ms", ms)
			b = appendMember(b, "retry_after_s", ceilSeconds(ms))
		}
		return b
	}
	la := &a.Limits[a.Strictest]
	d := &la.Decision
	b = appendFigures(b, la)
	s := limiter.Never
	if d.RetryAfter != limiter.Never {
		s = ceilSeconds(d.RetryAfter)
	}
	b = appendMember(b, "retry_after_s", s)
	b = appendMember(b, "delay_ms", a.delay())
	if a.Op == limiter.OpRefund || a.Op == limiter.OpRelease || a.Op == limiter.OpSettle {
		b = appendMember(b, "refunded", a.refunded())
	}
	return b
}

// delay is how long the request should wait before it starts: the longest that
// any enforced limit asks for. A denied request is not started at all.
func (a *Answer) delay() int64 {
	var ms int64
	for i := range a.Limits {
		if la := &a.Limits[i]; a.Allowed && !la.Shadow && la.Known {
			ms = max(ms, la.Decision.Delay)
		}
	}
	return ms
}

// refunded is the most units that any enforced limit got back.
func (a *Answer) refunded() int64 {
	var n int64
	for i := range a.Limits {
		if la := &a.Limits[i]; !la.Shadow {
			n = max(n, la.Decision.Refunded)
		}
	}
	return n
}

func appendFigures(b []byte, la *LimitAnswer) []byte {
	d := &la.Decision
	b = appendInForce(b, la)
	b = appendMember(b, "remaining", d.Remaining)
	b = appendMember(b, "reset_ms", d.Reset)
	return appendMember(b, "retry_after_ms", d.RetryAfter)
}

// appendInForce writes the limit in force, and the burst of a bucket algorithm.
func appendInForce(b []byte, la *LimitAnswer) []byte {
	limit, burst, bucketed := la.Decision.InForce(la.Limit.Algorithm)
	b = appendMember(b, "limit", limit)
	if bucketed {
		b = appendMember(b, "burst", burst)
	}
	return b
}

func appendLimit(b []byte, op limiter.Op, la *LimitAnswer) []byte {
	b = append(b, `{"rule":`...)
	b = appendNullable(b, la.Rule)
	b = append(b, `,"key":`...)
	b = appendJSONString(b, la.Display())
	b = append(b, `,"allowed":`...)
	b = strconv.AppendBool(b, la.Decision.Allowed)
	if la.Known {
		b = appendFigures(b, la)
		if la.Decision.Delay > 0 {
			b = appendMember(b, "delay_ms", la.Decision.Delay)
		}
		if op == limiter.OpRefund || op == limiter.OpRelease || op == limiter.OpSettle {
			b = appendMember(b, "refunded", la.Decision.Refunded)
		}
	} else {
		b = appendInForce(b, la)
	}
	switch {
	case la.Candidate:
		b = append(b, `,"mode":"candidate"`...)
	case la.Shadow:
		b = append(b, `,"mode":"shadow"`...)
	default:
		b = append(b, `,"mode":"enforce"`...)
	}
	b = appendAbove(b, la.Soft, la.Elastic)
	if la.Degraded != "" {
		b = append(b, `,"degraded":"`...)
		b = append(append(b, la.Degraded...), '"')
	}
	return append(b, '}')
}

// appendAbove says that the part of a request above a limit was let through.
func appendAbove(b []byte, soft, elastic bool) []byte {
	if soft {
		b = append(b, `,"soft":true`...)
	}
	if elastic {
		b = append(b, `,"elastic":true`...)
	}
	return b
}

// Display is the bucket's name for people, such as user:42, or the caller's own
// key for a direct limit. What looks like a credential shows as a hash.
func (la *LimitAnswer) Display() string {
	if la.Rule == "" {
		return rules.DisplayDirectKey(la.Key)
	}
	return rules.DisplayKey(la.Key)
}

func appendHeaders(b []byte, a *Answer, st HeaderStyle) []byte {
	b = append(b, '{')
	if a.spends() {
		n := 0
		st.Headers(a, func(name string, value []byte) {
			if n > 0 {
				b = append(b, ',')
			}
			n++
			b = appendJSONString(b, name)
			b = append(b, ':')
			b = appendJSONString(b, value)
		})
	}
	return append(b, '}')
}

func appendMember(b []byte, name string, v int64) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return strconv.AppendInt(b, v, 10)
}

func appendNullable(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return appendJSONString(b, s)
}

const lowerHex = "0123456789abcdef"

// bare marks the bytes that stand for themselves in a JSON string.
var bare = func() (t [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendJSONString writes s as a JSON string; bytes that are not UTF-8 become
// U+FFFD.
func appendJSONString[T string | []byte](b []byte, s T) []byte {
	b = append(b, '"')
	from := 0 // what has not been written yet
	for i := 0; i < len(s); {
		c := s[i]
		if bare[c] {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		n := 1
		if c < utf8.RuneSelf {
			b = appendEscape(b, c)
		} else {
			var r rune
			r, n = utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
			b = utf8.AppendRune(b, r)
		}
		i += n
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

// appendEscape writes an ASCII byte that does not stand for itself.
func appendEscape(b []byte, c byte) []byte {
	if c == '"' || c == '\\' {
		return append(b, '\\', c)
	}
	return append(b, '\\', 'u', '0', '0', lowerHex[c>>4], lowerHex[c&15])
}
