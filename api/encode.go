package api

import (
	"maps"
	"slices"
	"strconv"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/limiter"
	"sluice/rules"
)

// encoder writes answers as JSON. It reuses its memory and is not safe for concurrent
// use.
type encoder struct {
	style   reply.HeaderStyle
	scratch []byte // for the headers
}

// append writes an answer as the schema Answer of openapi.yaml. Unknown figures are
// omitted.
func (e *encoder) append(b []byte, a *decide.Answer) []byte {
	b = append(b, `{"allowed":`...)
	b = strconv.AppendBool(b, a.Allowed())
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(reply.Status(a)), 10)
	rule := ""
	if a.Strictest >= 0 {
		la := &a.Limits[a.Strictest]
		rule = la.Rule
		b = appendFigures(b, la)
		seconds := la.Decision.RetryAfter
		if seconds != limiter.Never {
			seconds = reply.CeilSeconds(seconds)
		}
		b = appendMember(b, "retry_after_s", seconds)
		b = appendMember(b, "delay_ms", a.Delay())
		if a.Op == limiter.OpRefund || a.Op == limiter.OpRelease || a.Op == limiter.OpSettle {
			b = appendMember(b, "refunded", refunded(a))
		}
	} else {
		rule = degradedRule(a)
		if ms, ok := a.RetryAfter(); ok {
			b = appendMember(b, "retry_after_ms", ms)
			b = appendMember(b, "retry_after_s", reply.CeilSeconds(ms))
		}
	}
	switch a.Op {
	case limiter.OpReset:
		b = appendMember(b, "reset", a.Resets())
	case limiter.OpClose:
		b = append(b, `,"ended":`...)
		b = strconv.AppendBool(b, a.Resets() > 0)
	}
	if ms := a.Ban(); ms > 0 {
		b = appendMember(b, "ban_ms", ms)
	}
	b = append(b, `,"degraded":`...)
	b = appendNullable(b, a.Degraded)
	b = append(b, `,"rule":`...)
	b = appendNullable(b, rule)
	if a.Soft {
		b = append(b, `,"soft":true`...)
	}
	if a.Elastic {
		b = append(b, `,"elastic":true`...)
	}
	if a.Verdict == decide.Shed {
		b = append(b, `,"shed":true`...)
	}
	if a.Verdict == decide.Overloaded {
		b = append(b, `,"overloaded":true`...)
	}
	if a.Replayed {
		b = append(b, `,"replayed":true`...)
	}
	for i := range a.Limits {
		if of := a.Limits[i].Of; of != nil && of.Warn != nil { // of few rules
			b = appendAdvice(b, a)
			break
		}
	}
	if a.Lease != "" {
		b = append(b, `,"lease":"`...)
		b = append(append(b, a.Lease...), '"')
	}
	if a.Reservation != "" {
		b = append(b, `,"reservation":"`...)
		b = append(append(b, a.Reservation...), '"')
		b = appendMember(b, "expires_in_ms", a.ExpiresIn)
		if a.Returns > 0 {
			b = appendMember(b, "on_expire_percent", 100-a.Returns)
		}
	}
	if a.Granted > 0 || a.SpendWithin > 0 {
		b = appendMember(b, "granted", a.Granted)
		b = appendMember(b, "spend_within_ms", a.SpendWithin)
	}
	if a.Shrinks {
		b = append(b, `,"shrinks":true`...)
	}
	if a.Ticket != "" {
		b = append(b, `,"ticket":`...)
		b = reply.AppendString(b, a.Ticket)
	} else if a.DeferralUnknown() {
		b = append(b, `,"deferred":"unknown"`...)
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
	b = append(b, `],"headers":{`...)
	// A gateway passes the result of these operations to its client.
	if a.Op == limiter.OpTake || a.Op == limiter.OpPeek || a.Op == limiter.OpCharge {
		n := 0
		e.scratch = e.style.Headers(a, e.scratch[:0], func(name string, value []byte) {
			if n > 0 {
				b = append(b, ',')
			}
			n++
			b = reply.AppendString(b, name)
			b = append(b, ':')
			b = reply.AppendString(b, value)
		})
		if !a.Allowed() {
			b = append(b, `},"body":`...)
			return append(reply.AppendDenial(b, a, true), '}')
		}
	}
	return append(b, '}', '}')
}

// appendAdvice writes the advice of a warning that is reached, in the order of its names.
func appendAdvice(b []byte, a *decide.Answer) []byte {
	rule, set := a.Advice()
	if set == nil {
		return b
	}
	b = append(reply.AppendString(append(b, `,"advice":{"rule":`...), rule), `,"set":{`...)
	for i, name := range slices.Sorted(maps.Keys(set)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = reply.AppendString(append(reply.AppendString(b, name), ':'), set[name])
	}
	return append(b, `}}`...)
}

// degradedRule returns the rule of the limit that decided an answer without figures: one
// with fail mode closed if it denied.
func degradedRule(a *decide.Answer) string {
	for i := range a.Limits {
		la := &a.Limits[i]
		denies := la.Degraded == rules.FailClosed || !la.Known && !la.Decision.Allowed && !la.Overloaded // without figures
		if !la.Shadow && (a.Allowed() || denies) {
			return la.Rule
		}
	}
	return ""
}

// refunded returns the highest number of units that an enforced limit got back.
func refunded(a *decide.Answer) (units int64) {
	for i := range a.Limits {
		if la := &a.Limits[i]; !la.Shadow {
			units = max(units, la.Decision.Refunded)
		}
	}
	return units
}

// appendFigures writes the limit in force, with the burst of a bucket algorithm, and the
// figures of the decision if they are known.
func appendFigures(b []byte, la *decide.LimitAnswer) []byte {
	d := &la.Decision
	if la.Meter {
		return appendCounted(b, la)
	}
	limit, burst, bucketed := d.InForce(la.Limit.Algorithm)
	b = appendMember(b, "limit", limit)
	if bucketed {
		b = appendMember(b, "burst", burst)
	}
	if !la.Known {
		return b
	}
	b = appendMember(b, "remaining", d.Remaining)
	b = appendMember(b, "used", d.Used)
	b = appendMember(b, "reset_ms", d.Reset)
	return appendMember(b, "retry_after_ms", d.RetryAfter)
}

// appendCounted writes the figures of a meter, which has no limit.
func appendCounted(b []byte, la *decide.LimitAnswer) []byte {
	if !la.Known {
		return b
	}
	b = appendMember(b, "used", la.Decision.Used)
	return appendMember(b, "reset_ms", la.Decision.Reset)
}

func appendLimit(b []byte, op limiter.Op, la *decide.LimitAnswer) []byte {
	b = append(b, `{"rule":`...)
	b = appendNullable(b, la.Rule)
	b = append(b, `,"key":`...)
	b = reply.AppendString(b, la.Display())
	b = append(b, `,"allowed":`...)
	b = strconv.AppendBool(b, la.Decision.Allowed)
	b = appendFigures(b, la)
	if la.Known {
		if la.Decision.Delay > 0 {
			b = appendMember(b, "delay_ms", la.Decision.Delay)
		}
		if op == limiter.OpRefund || op == limiter.OpRelease || op == limiter.OpSettle {
			b = appendMember(b, "refunded", la.Decision.Refunded)
		}
	}
	if la.Ban > 0 {
		b = appendMember(b, "ban_ms", la.Ban)
	}
	b = append(b, `,"mode":"`...)
	b = append(append(b, la.Mode()...), '"')
	if la.Soft {
		b = append(b, `,"soft":true`...)
	}
	if la.Elastic {
		b = append(b, `,"elastic":true`...)
	}
	if la.Shed != "" {
		b = append(b, `,"shed":true`...)
	}
	if la.Overloaded {
		b = append(b, `,"overloaded":true`...)
	}
	if la.ConditionFailed {
		b = append(b, `,"condition_failed":true`...)
	}
	if la.Degraded != "" {
		b = append(b, `,"degraded":"`...)
		b = append(append(b, la.Degraded...), '"')
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
	return reply.AppendString(b, s)
}
