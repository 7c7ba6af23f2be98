package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/rules"
)

// Count writes a number with spaces between thousands, narrow and unbreakable.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "−", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return sign + s
}

// Plural is Count with its noun: "1 rule", "2 rules".
func Plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

var units = []struct {
	ms        int64
	one, many string
}{
	{604_800_000, "week", "weeks"}, {86_400_000, "day", "days"}, {3_600_000, "hour", "hours"},
	{60_000, "minute", "minutes"}, {1000, "second", "seconds"}, {1, "ms", "ms"},
}

// Window writes milliseconds the way people say them: "minute", "15 minutes",
// "1.5 seconds" for what is no whole number of any unit above it.
func Window(ms int64) string {
	for _, u := range units {
		if ms >= u.ms && ms%u.ms == 0 {
			if ms == u.ms && u.ms > 1 {
				return u.one
			}
			return Count(ms/u.ms) + " " + u.many
		}
	}
	return Count(ms) + " ms"
}

// ScopeWords says what has a bucket of its own: "user and address".
func ScopeWords(scope string) string {
	parts := strings.Split(scope, "+")
	for i, p := range parts {
		p = strings.TrimSpace(p)
		switch p {
		case "ip":
			p = "address"
		case "apikey":
			p = "API key"
		default:
			p = strings.TrimPrefix(p, "attr:")
		}
		parts[i] = p
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

// LimitWords says a rule's limit in a few words: "100 per minute per user".
func LimitWords(r *rules.Rule) string {
	each := " per " + ScopeWords(r.Scope)
	if r.Scope == "global" {
		each = " in all"
	}
	if r.Algorithm == "concurrency" {
		return Count(r.Limit) + " at a time" + each
	}
	s := Count(r.Limit) + " per " + Window(r.WindowMS) + each
	if r.Burst != nil && *r.Burst != r.Limit {
		s += ", bursts of " + Count(*r.Burst)
	}
	return s
}

// MatchWords says which requests a rule is for: "POST /v1/charges".
func MatchWords(r *rules.Rule) string {
	route, method := "every route", ""
	if r.Route != nil {
		route = *r.Route
	}
	if r.Method != nil {
		method = *r.Method + " "
		if r.Route == nil {
			method += "on "
		}
	}
	return method + route
}

// AlgorithmWords is an algorithm's name as people write it.
func AlgorithmWords(name string) string {
	if name == "gcra" {
		return "GCRA"
	}
	return strings.ReplaceAll(name, "_", " ")
}

// Stamp is a time for the datetime attribute.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Clock is a time as it reads without JavaScript.
func Clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// Percent writes a part of a whole, "0%" of nothing.
func Percent(part, whole int64) string {
	if whole <= 0 {
		return "0%"
	}
	p := float64(part) / float64(whole) * 100
	if p > 0 && p < 10 {
		return fmt.Sprintf("%.1f%%", p)
	}
	return fmt.Sprintf("%.0f%%", p)
}

// sampleRule is shown where there are no rules.
const sampleRule = `rules:
  - name: charges-per-user
    scope: user
    route: /v1/charges
    method: POST
    limit: 100
    window_ms: 60000`

// diffText writes a JSON value of a change for people.
func diffText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case int64:
		return Count(v)
	case float64:
		if v == float64(int64(v)) {
			return Count(int64(v))
		}
	}
	return fmt.Sprint(v)
}

// PerSecond writes a rate: "1 240/s", "0.3/s".
func PerSecond(r float64) string {
	if r > 0 && r < 10 {
		return strconv.FormatFloat(r, 'f', 1, 64) + "/s"
	}
	return Count(int64(r+0.5)) + "/s"
}

// Millis is a time given in milliseconds since the epoch; 0 is the zero time.
func Millis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
