package rules

import (
	"maps"
	"slices"

	"sluice/rules/chars"
	"sluice/rules/field"
)

// Warn is advice for the caller of a check whose key has used much of its limit: the model to use, for example. It
// changes no decision.
type Warn struct {
	// Percent is 1 to 100 percent of the limit.
	Percent int64 `json:"percent"`
	// Set has 1 to MaxAdvice texts by name, which mean something to the caller.
	Set map[string]string `json:"set"`
}

// MaxAdvice is the largest number of texts of a warning, and MaxAdviceValue the longest one, in bytes.
const (
	MaxAdvice      = 16
	MaxAdviceValue = 255
)

var warnFields = []field.Field[Warn]{
	{Name: "percent", At: func(w *Warn) any { return &w.Percent }, Required: true, Least: 1, Most: 100},
	{Name: "set", At: func(w *Warn) any { return &w.Set }, Required: true, Noun: "texts", Most: MaxAdvice,
		Composite: field.MapOf(field.DecodeText)},
}

// WarnFields is Fields for a warning.
func WarnFields() []field.Field[Warn] { return warnFields }

func validateWarn(r *Rule, ps *field.Problems) {
	w := r.Warn
	if w == nil {
		return
	}
	switch {
	case r.Mode == ModeShadow:
		ps.Add("warn", "cannot be combined with mode shadow, which changes no answer")
	case r.Unlimited:
		ps.Add("warn", "does not apply to an unlimited rule, which counts nothing")
	}
	field.Bounds(warnFields, w, "warn.", ps)
	if len(w.Set) == 0 {
		ps.Add("warn.set", "is required")
	}
	for _, name := range slices.Sorted(maps.Keys(w.Set)) {
		at := "warn.set." + field.SafeField(name)
		if !chars.IsName(name) {
			ps.Add(at, "must have a name of 1 to 64 letters, digits, dots, dashes and underscores")
			continue
		}
		checkEntryText(ps, at, w.Set[name], 0, MaxAdviceValue)
	}
}

// Reached reports whether units are at least a percentage of a limit.
func Reached(used, limit, percent int64) bool { return used*100 >= percent*limit }
