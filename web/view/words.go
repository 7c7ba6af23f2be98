package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/rules/words"
)

// Count writes a number with commas between thousands.
func Count(n int64) string { return rules.CountWords(n) }

// Bytes writes a number of bytes: "512 B", "42.5 kB", "1.8 MB".
func Bytes(n int64) string {
	f, unit := float64(n), "B"
	for _, larger := range []string{"kB", "MB", "GB", "TB"} {
		if f < 1000 {
			break
		}
		f, unit = f/1000, larger
	}
	if unit == "B" {
		return Count(n) + " B"
	}
	return Tenths(f) + " " + unit
}

// Plural is Count with its noun: "1 rule", "2 rules".
func Plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

// MissingWords says what is missing, for an error with one line for each thing, such as history.Result.Partial.
func MissingWords(err error) string {
	return "Some figures are missing: " + strings.ReplaceAll(err.Error(), "\n", "; ") + "."
}

// Window is rules.WindowWords.
func Window(ms int64) string { return rules.WindowWords(ms) }

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

// RuleWords describes a rule in one line: what it matches and limits, and what else it does.
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

// Percent writes a part of a whole, "0%" if the whole is 0.
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
			out = append(out, short+" "+words.Duration(n))
		} else {
			out = append(out, strings.ReplaceAll(name, "_", " ")+" "+strconv.FormatFloat(object[name], 'f', -1, 64))
		}
	}
	return chars.ShownLines(strings.Join(out, ", "))
}

// PerSecond writes a rate: "1,240/s", "0.3/s".
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
