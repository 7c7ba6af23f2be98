package view

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/rules/quantity"
	"sluice/rules/words"
)

// Numbers on pages are written by these functions only: amounts, lengths of time, shares, and names that are numbers.

// Count is quantity.Amount: "1,240".
func Count[N int | int64](n N) string { return quantity.Amount(int64(n)) }

// About is quantity.About, for estimates.
func About(n float64) string { return quantity.About(n) }

// Decimal is quantity.Decimal: "1.25".
func Decimal(n float64) string { return quantity.Decimal(n) }

// Bytes is quantity.Bytes: "42.5 kB".
func Bytes(n int64) string { return quantity.Bytes(n) }

// Plural is quantity.Plural: "1 rule", "2 rules".
func Plural[N int | int64](n N, noun string) string { return quantity.Plural(int64(n), noun) }

// PerSecond is quantity.Rate: "1,240/s".
func PerSecond(r float64) string { return quantity.Rate(r) }

// Percent is quantity.Share: "99.7%".
func Percent(part, whole int64) string { return quantity.Share(part, whole) }

// PercentOf is quantity.Percent, for what is known in percent only.
func PercentOf[N int64 | float64](p N) string { return quantity.Percent(p) }

// Length is quantity.Length: "1 min 35 s".
func Length(d time.Duration) string { return quantity.Length(d) }

// LengthUp is quantity.Wait: a length of time that is rounded up.
func LengthUp(d time.Duration) string { return quantity.Wait(d) }

// Window is quantity.Period, as in "per minute".
func Window(ms int64) string { return quantity.Period(ms) }

// Digits is quantity.Digits, for a number that is a name, such as a version, or that a machine reads.
func Digits[N int | int64](n N) string { return quantity.Digits(n) }

// MissingWords says what is missing, for an error with one line for each thing, such as history.Result.Partial.
func MissingWords(err error) string {
	return "Some figures are missing: " + strings.ReplaceAll(err.Error(), "\n", "; ") + "."
}

// LimitWords is words.Limit. The keys of a long descriptor are cut.
func LimitWords(r *rules.Rule) string { return cutDescriptor(r, words.Limit(r)) }

// shortPeriods are the units of LimitShort.
var shortPeriods = strings.NewReplacer(" per second", "/s", " per minute", "/min", " per hour", "/h",
	" per day", "/day", " seconds", " s", " minutes", " min", " hours", " h")

// LimitShort is LimitWords with short units, for a narrow column: "100/min per user".
func LimitShort(r *rules.Rule) string {
	if r.Descriptor != nil {
		return LimitWords(r)
	}
	return shortPeriods.Replace(LimitWords(r))
}

// MatchWords is words.Match. A long descriptor is cut.
func MatchWords(r *rules.Rule) string { return cutDescriptor(r, words.Match(r)) }

// Shedding describes what the pool of a rule does if it sheds, else "".
func Shedding(r *rules.Rule, set *match.Set) string {
	if r.Pool == nil || set == nil {
		return ""
	}
	return words.Shed(r, set.Pool(*r.Pool))
}

// RuleWords describes a rule in one line: the matched requests, the limit, and other effects.
func RuleWords(r *rules.Rule) string { return MatchWords(r) + ": " + LimitWords(r) + words.Besides(r) }

// cutDescriptor cuts the words about a long descriptor in the middle: similar rules often differ at their ends.
func cutDescriptor(r *rules.Rule, text string) string {
	const start, end = 56, 24
	if all := []rune(text); r.Descriptor != nil && len(all) > start+1+end {
		return string(all[:start]) + "…" + string(all[len(all)-end:])
	}
	return text
}

// AlgorithmWords is an algorithm's name for people.
func AlgorithmWords(name string) string {
	r := rules.Rule{Algorithm: name}
	return r.Traits().Title
}

// Stamp is a time for the datetime attribute.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Clock is a time as shown without JavaScript.
func Clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// MomentOf is the moment that a JSON value names.
func MomentOf(v any) (time.Time, bool) {
	text, ok := v.(string)
	if !ok {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, err == nil
}

// DiffText writes a JSON value of a change for people.
func DiffText(v any) string {
	switch v := v.(type) {
	case string:
		return chars.ShownLines(v)
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
	if text := numberWords(v); text != "" {
		return text
	}
	return chars.ShownLines(field.JSONText(v))
}

// numberWords writes an object of numbers, such as a ban, "" for other values: "after 20, for 10 minutes, grow 1".
func numberWords(v any) string {
	var object map[string]float64
	if json.Unmarshal([]byte(field.JSONText(v)), &object) != nil {
		return ""
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		n := int64(object[name])
		if short, ok := strings.CutSuffix(name, "_ms"); ok && n > 0 {
			out = append(out, short+" "+quantity.Exactly(n))
		} else {
			out = append(out, strings.ReplaceAll(name, "_", " ")+" "+Decimal(object[name]))
		}
	}
	return chars.ShownLines(strings.Join(out, ", "))
}

// Millis is a time given in milliseconds since the epoch; 0 is the zero time.
func Millis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// BreakerWords is the state of a circuit breaker for people: "closed" would read as a fail mode.
func BreakerWords(state string) string {
	switch state {
	case "closed":
		return "healthy"
	case "open":
		return "tripped"
	}
	return "recovering"
}

// RequestWords is a sampled request in a few words.
func RequestWords(d *history.Request) string {
	words := strings.TrimSpace(d.Method + " " + d.Route)
	if words == "" {
		return "–"
	}
	return chars.Shown(words)
}

// tailRunes is how much of the end of a name is always shown.
const tailRunes = 12

// Cut reports whether Middle may cut a name.
func Cut(name string) bool {
	head, _ := halves(name)
	return head != ""
}

// halves divides a name, as people see it, into what may be cut and its end. A short name has no head.
func halves(name string) (head, tail string) {
	runes := []rune(chars.Shown(name))
	at := len(runes) - tailRunes
	if at < tailRunes {
		return "", string(runes)
	}
	return string(runes[:at]), string(runes[at:])
}
