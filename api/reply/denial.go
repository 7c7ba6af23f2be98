package reply

import (
	"math"
	"strconv"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/profile"
	"sluice/rules/redact"
)

// The problem types, with their titles, that draft-ietf-httpapi-ratelimit-headers-11 registers.
const (
	typeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	typeAbnormalUsage   = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"

	titleQuotaExceeded   = "Request cannot be satisfied as assigned quota has been exceeded"
	titleReducedCapacity = "Request cannot be satisfied due to temporary server capacity constraints"
	titleAbnormalUsage   = "Request not satisfied due to detection of abnormal request pattern"
)

// AppendDenial writes the problem document that a gateway sends to a denied client, or
// the document for a client whose request is deferred. The answer must be a denial. With names it
// has the names of the limits that denied.
func AppendDenial(b []byte, a *decide.Answer, names bool) []byte {
	return appendDenial(b, a, names, math.MaxInt)
}

// maxPolicyNames bounds the names of limits in a short denial, in bytes.
const maxPolicyNames = 400

// maxMessage bounds the message of a rule with its values, in bytes. A placeholder that stands in a message often would
// multiply what a caller sent, for each check of a batch.
const maxMessage = 4 << 10

// AppendShortDenial is AppendDenial with less than 1,000 bytes: of many violated limits it
// names the strictest and the first ones.
func AppendShortDenial(b []byte, a *decide.Answer, names bool) []byte {
	return appendDenial(b, a, names, maxPolicyNames)
}

// appendDenial writes names of limits while their bytes are at most most.
func appendDenial(b []byte, a *decide.Answer, names bool, most int) []byte {
	switch {
	case a.Ticket != "":
		b = append(b, `{"status":202,"title":"Accepted for later","detail":"The request is processed when its limits allow it.","ticket":`...)
		return append(AppendString(b, a.Ticket), '}')
	case a.DeferralUnknown():
		return append(b, `{"status":202,"title":"Perhaps accepted for later",`+
			`"detail":"The request may be processed when its limits allow it. Whether it will be is unknown."}`...)
	}
	b = append(b, `{"type":"`...)
	closed, overloaded := a.Verdict == decide.Unavailable, a.Verdict == decide.Overloaded
	if closed || overloaded || a.Verdict == decide.Shed {
		b = append(b, typeReducedCapacity+`","title":"`+titleReducedCapacity+`","status":503,`...)
	}
	switch {
	case closed:
		b = append(b, `"detail":"It cannot be determined right now whether this request is within its limits, so it is denied.",`...)
	case overloaded:
		b = append(b, `"detail":"More requests arrive than can be decided right now, so this one is denied.",`...)
	case a.Verdict == decide.Shed:
		b = append(b, `"detail":"The request is within its limits, but the service has no capacity for it right now. `...)
		b = append(appendAdvice(b, a), `",`...)
	default:
		if a.Ban() > 0 {
			b = append(b, typeAbnormalUsage+`","title":"`+titleAbnormalUsage+`",`...)
		} else {
			b = append(b, typeQuotaExceeded+`","title":"`+titleQuotaExceeded+`",`...)
		}
		b = strconv.AppendInt(append(b, `"status":`...), int64(Status(a)), 10)
		b = append(b, `,"detail":"`...)
		b = appendAdvice(b, a)
		b = append(b, `",`...)
	}
	if names {
		b, most = appendNames(b, a, most)
	}
	word := `"rate_limit_exceeded"`
	if a.Verdict != decide.Denied {
		word = `"rate_limit_unavailable"`
	}
	if a.Dialect == "" || a.Dialect == profile.DialectNone {
		b = append(append(append(b, `"error":`...), word...), `,"message":`...)
		return append(appendMessage(b, a, most), '}')
	}
	b = appendError(b, a, word)
	from := len(b)
	b = appendMessage(b, a, most/2)
	to := len(b)
	return append(append(append(b, `},"message":`...), b[from:to]...), '}')
}

// appendNames writes the member with the names of the limits that denied, and returns what is left of most bytes.
func appendNames(b []byte, a *decide.Answer, most int) ([]byte, int) {
	b = append(b, `"violated-policies":[`...)
	n := 0
	for i := range a.Limits {
		la := &a.Limits[i]
		if la.Shadow || la.Decision.Allowed || la.Overloaded || la.Hidden() {
			continue
		}
		if i != a.Strictest {
			if most -= len(la.Name()) + len(`"",`); most < 0 {
				continue
			}
		}
		if n > 0 {
			b = append(b, ',')
		}
		n++
		b = AppendString(b, la.Name())
	}
	return append(b, `],`...), most
}

// appendMessage writes the message as a JSON string.
func appendMessage(b []byte, a *decide.Answer, most int) []byte {
	switch a.Verdict {
	case decide.Denied:
	case decide.Shed:
		return append(appendAdvice(append(b, `"The service is busy. `...), a), '"')
	default:
		return append(b, `"The service is busy. Please try again in a moment."`...)
	}
	if own := messageOf(a); own != "" && len(own) <= maxMessage {
		before := len(b)
		if b = AppendString(b, own); len(b)-before <= most {
			return b
		}
		b = b[:before]
	}
	return append(appendAdvice(append(b, `"Too many requests. `...), a), '"')
}

// messageOf returns the message of the strictest limit's rule, "" if it has none that fits.
func messageOf(a *decide.Answer) string {
	if a.Strictest < 0 || a.Limits[a.Strictest].Message == nil {
		return ""
	}
	la := &a.Limits[a.Strictest]
	limit, _, _ := la.Decision.InForce(la.Limit.Algorithm)
	v := rules.MessageValues{Limit: strconv.FormatInt(limit, 10), WindowMS: la.Limit.Window, Period: la.Period,
		Key: la.Display(), Route: redact.Path(a.Route), RetryAfter: -1}
	if la.Of.Noun() != "" {
		v.Limit = la.Of.AmountWords(limit)
	}
	if ms, ok := a.RetryAfter(); ok && ms != limiter.Never {
		v.RetryAfter = CeilSeconds(ms)
	}
	return la.Message.Text(&v)
}

// appendAdvice writes when to try again.
func appendAdvice(b []byte, a *decide.Answer) []byte {
	ms, ok := a.RetryAfter()
	if !ok || ms == limiter.Never {
		return append(b, "Waiting does not help."...)
	}
	b = append(b, "Please try again in "...)
	s := CeilSeconds(ms)
	b = strconv.AppendInt(b, s, 10)
	if s == 1 {
		return append(b, " second."...)
	}
	return append(b, " seconds."...)
}
