package rules_test

import (
	"testing"

	"sluice/rules"
)

// TestSameTrial_EndsWithWhatDecides: counts of two versions of a rule add up only
// if both tried the same limit on the same requests.
func TestSameTrial_EndsWithWhatDecides(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	shadow := func(edit func(*rules.Rule)) rules.Rule {
		r := rules.Rule{Name: "r", Scope: "user", Limit: 10, WindowMS: 1000, Mode: rules.ModeShadow, IsActive: true}
		r.Normalize()
		edit(&r)
		return r
	}
	candidate := func(edit func(*rules.Rule)) rules.Rule {
		return shadow(func(r *rules.Rule) {
			r.Mode, r.Candidate = rules.ModeEnforce, &rules.Candidate{Limit: n(5)}
			edit(r)
		})
	}
	same := func(*rules.Rule) {}
	for name, c := range map[string]struct {
		a, b rules.Rule
		want bool
	}{
		"shadow, described": {shadow(same),
			shadow(func(r *rules.Rule) { r.Description, r.Name, r.IsActive = "x", "s", false }), true},
		"shadow, another limit":           {shadow(same), shadow(func(r *rules.Rule) { r.Limit = 11 }), false},
		"shadow, other requests":          {shadow(same), shadow(func(r *rules.Rule) { r.Method = new(string) }), false},
		"shadow, enforced before":         {shadow(func(r *rules.Rule) { r.Mode = rules.ModeEnforce }), shadow(same), false},
		"candidate, the rule's own limit": {candidate(same), candidate(func(r *rules.Rule) { r.Limit = 99 }), true},
		"candidate, edited": {candidate(same), candidate(func(r *rules.Rule) { r.Candidate.Limit = n(6) }),
			false},
		"candidate, the rule's window": {candidate(same), candidate(func(r *rules.Rule) { r.WindowMS = 2000 }), false},
		"candidate, window said twice": {candidate(same),
			candidate(func(r *rules.Rule) { r.Candidate.WindowMS = n(1000) }), true},
		"candidate, became a shadow rule":  {candidate(same), shadow(same), false},
		"candidate, of the same as shadow": {candidate(same), shadow(func(r *rules.Rule) { r.Limit = 5 }), false},
	} {
		if got := rules.SameTrial(&c.a, &c.b); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
