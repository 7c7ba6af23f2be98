package reply

import (
	"strconv"
	"time"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/profile"
)

// A dialect adds headers and members for the client's SDK to the usual ones: the headers in which an API states the
// remaining units and whether a call is worth repeating, and error as an object. The SDKs of OpenAI and Anthropic obey
// retry-after-ms and x-should-retry, and show the body of a denial in the text of their exception. They sleep for a
// Retry-After of any length or ignore a long one, so for a wait above maxSDKWait the answer says that waiting does not
// help.
//
// An example: tokens left are x-ratelimit-remaining-tokens: 120 in openai, with x-ratelimit-reset-tokens: 6m0s, and
// anthropic-ratelimit-tokens-remaining: 120 in anthropic, with an instant of RFC 3339 as reset. In mcp the body of a
// denial is an error of JSON-RPC 2.0, without the id of its request, which a gateway does not read.

// maxSDKWait is the longest wait, in ms, after which an SDK should retry on its own.
const maxSDKWait = 60_000

// The headers of dialects of SDKs.
const (
	headerRetryAfterMS = "retry-after-ms"
	headerShouldRetry  = "x-should-retry"
)

// dialectNames are the headers of what is left, by dialect and kind: limit, remaining, reset.
var dialectNames = map[string][2][3]string{
	profile.DialectOpenAI: {
		{"x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"},
		{"x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"},
	},
	profile.DialectAnthropic: {
		{"anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining",
			"anthropic-ratelimit-requests-reset"},
		{"anthropic-ratelimit-tokens-limit", "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"},
	},
}

// dialectKinds are the kinds of limits that dialectNames has headers for.
var dialectKinds = [2]string{rules.CountsRequests, rules.CountsTokens}

// ofSDK reports whether an answer is for an SDK that reads its own headers.
func ofSDK(a *decide.Answer) bool {
	return a.Dialect == profile.DialectOpenAI || a.Dialect == profile.DialectAnthropic
}

// dialectHeaders sends the headers of the limit with the smallest share left, for each kind of limits that clients may
// see.
func dialectHeaders(a *decide.Answer, scratch []byte, send func(name string, value []byte)) []byte {
	for k, names := range dialectNames[a.Dialect] {
		least := -1
		for i := range a.Limits {
			la := &a.Limits[i]
			if !la.Shadow && !la.Hidden() && la.Known && la.Of.Kind() == dialectKinds[k] &&
				(least < 0 || la.Decision.LessLeft(a.Limits[least].Decision)) {
				least = i
			}
		}
		if least < 0 {
			continue
		}
		d := &a.Limits[least].Decision
		send(names[0], strconv.AppendInt(scratch[:0], d.Limit, 10))
		send(names[1], strconv.AppendInt(scratch[:0], d.Remaining, 10))
		switch ms := wait(a, d); {
		case ms == limiter.Never:
		case a.Dialect == profile.DialectOpenAI:
			send(names[2], append(scratch[:0], (time.Duration(ms)*time.Millisecond).String()...))
		default:
			send(names[2], time.UnixMilli((a.At+ms+millisecondsInSecond-1)/millisecondsInSecond*millisecondsInSecond).UTC().
				AppendFormat(scratch[:0], time.RFC3339))
		}
	}
	return scratch[:0]
}

// codeMCP is the code of a denial in JSON-RPC, the first code that servers may define.
const codeMCP = "-32000"

// appendError begins error as an object, up to the value of its message. word is the code of the usual form.
func appendError(b []byte, a *decide.Answer, word string) []byte {
	if a.Dialect == profile.DialectMCP {
		return append(b, `"jsonrpc":"2.0","id":null,"error":{"code":`+codeMCP+`,"message":`...)
	}
	kind, status := "rate_limit_error", Status(a)
	ms, _ := a.RetryAfter()
	if a.Dialect == profile.DialectAnthropic {
		switch status {
		case statusUnavailable:
			kind = "overloaded_error"
		case statusForbidden:
			kind = "permission_error"
		case statusPayment:
			kind = "billing_error"
		}
	} else {
		switch kind = rules.CountsRequests; {
		case status == statusUnavailable:
			kind = "server_error"
		case ms == limiter.Never:
			kind, word = "insufficient_quota", `"insufficient_quota"`
		case a.Strictest >= 0 && a.Limits[a.Strictest].Of.Kind() == rules.CountsTokens && !a.Limits[a.Strictest].Hidden():
			kind = rules.CountsTokens
		}
		b = append(b, `"error":{"param":null,"type":"`...)
		return append(append(append(append(b, kind...), `","code":`...), word...), `,"message":`...)
	}
	b = append(append(b, `"error":{"type":"`...), kind...)
	return append(append(append(b, `","code":`...), word...), `,"message":`...)
}
