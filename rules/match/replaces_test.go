package match

import (
	"slices"
	"testing"
	"time"

	"sluice/rules"
)

func replacing(names ...string) func(*rules.Rule) {
	return func(r *rules.Rule) { r.Replaces = names }
}

func TestMatch_ARuleReplacesThoseThatItNames(t *testing.T) {
	later := noon.Add(time.Hour)
	general := rule(1, func(r *rules.Rule) { r.Name = "general" })
	generalKey := "{user:42}|1|sc"
	for name, c := range map[string]struct {
		special rules.Rule
		d       Descriptor
		want    []string
	}{
		"applies": {rule(2, replacing("general")), Descriptor{}, []string{"{user:42}|2|sc"}},
		"does not apply": {rule(2, func(r *rules.Rule) { r.Replaces, r.Route = []string{"general"}, ptr("/pay") }),
			Descriptor{Route: "/x"}, []string{generalKey}},
		"lacks a fact": {rule(2, func(r *rules.Rule) { r.Replaces, r.Scope = []string{"general"}, "attr:plan" }),
			Descriptor{}, []string{generalKey}},
		"lacks a field": {rule(2, func(r *rules.Rule) { r.Replaces, r.WeightField = []string{"general"}, ptr("bytes") }),
			Descriptor{}, []string{generalKey}},
		"shadow": {rule(2, func(r *rules.Rule) { r.Replaces, r.Mode = []string{"general"}, rules.ModeShadow }),
			Descriptor{}, []string{generalKey, "{user:42}|2|sc"}},
		"inactive": {rule(2, func(r *rules.Rule) { r.Replaces, r.IsActive = []string{"general"}, false }),
			Descriptor{}, []string{generalKey}},
		"not yet in force": {rule(2, func(r *rules.Rule) { r.Replaces, r.ActiveFrom = []string{"general"}, &later }),
			Descriptor{}, []string{generalKey}},
		"false condition": {rule(2, func(r *rules.Rule) { r.Replaces, r.When = []string{"general"}, ptr(`tier == "pro"`) }),
			Descriptor{}, []string{generalKey}},
		"condition without a decision": {
			rule(2, func(r *rules.Rule) {
				r.Replaces, r.When = []string{"general"}, ptr("1 / fields.n > 0 && 1 % fields.n == 0")
			}),
			Descriptor{}, []string{generalKey, "{user:42}|2|sc"}},
		"unlimited tier": {rule(2, func(r *rules.Rule) {
			r.Replaces, r.Tiers = []string{"general"}, map[string]rules.TierLimit{"pro": {Unlimited: true}}
		}), Descriptor{Tier: "pro"}, nil},
		"names no rule": {rule(2, replacing("gone")), Descriptor{}, []string{generalKey, "{user:42}|2|sc"}},
	} {
		c.d.User = "42"
		s := compile(t, general, c.special)
		if got := keyTexts(s, c.d); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		for _, x := range s.Explain(&c.d, 1, noon) {
			if replaced := x.Rule.Rule.ID == 1 && !slices.Contains(c.want, generalKey); replaced !=
				(x.Reason == ReasonReplaced) || replaced && !slices.Equal(x.ReplacedBy, []string{c.special.Name}) {
				t.Errorf("%s: explained as %+v", name, x)
			}
		}
		ms, err := s.MatchBuckets(t.Context(), &c.d, 1, noon, nil)
		if err != nil || !slices.ContainsFunc(ms, func(m Match) bool { return string(m.Key) == generalKey }) {
			t.Errorf("%s: a reset does not reach the replaced rule: %+v, %v", name, ms, err)
		}
	}
}

func TestMatch_ReplacingIsOneStep(t *testing.T) {
	a := rule(1, func(r *rules.Rule) { r.Name, r.Replaces = "a", []string{"b"} })
	b := rule(2, func(r *rules.Rule) { r.Name, r.Replaces = "b", []string{"c"} })
	c := rule(3, func(r *rules.Rule) { r.Name = "c" })
	if got := keyTexts(compile(t, a, b, c), Descriptor{User: "42"}); !slices.Equal(got, []string{"{user:42}|1|sc"}) {
		t.Errorf("a chain: got %q", got)
	}
	c.Replaces = []string{"a"}
	if got := keyTexts(compile(t, a, b, c), Descriptor{User: "42"}); got != nil {
		t.Errorf("a cycle: got %q, want none", got)
	}
}

func TestMatch_OverridesOfAReplacingRuleReplaceToo(t *testing.T) {
	special := rule(2, func(r *rules.Rule) { r.Name, r.Replaces = "special", []string{"general"} })
	general := rule(1, func(r *rules.Rule) { r.Name = "general" })
	for name, c := range map[string]struct {
		o    rules.Override
		want []string
	}{
		"unlimited": {rules.Override{Key: "user:42", Unlimited: true}, nil},
		"blocked":   {rules.Override{Key: "user:42", Blocked: true}, []string{"{user:42}|2|sc"}},
	} {
		s := compile(t, general, special).WithOverrides(withOverrides(t, special, c.o).Overrides())
		if got := keyTexts(s, Descriptor{User: "42"}); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		for _, x := range s.Explain(&Descriptor{User: "42"}, 1, noon) {
			if x.Rule.Rule.Name == "general" && x.Sentence != "The request is subject to special, which replaces this rule." {
				t.Errorf("%s: %s", name, x.Sentence)
			}
		}
	}
}

func TestExplain_SaysWhatAShadowRuleWouldReplace(t *testing.T) {
	s := compile(t, rule(1, func(r *rules.Rule) { r.Name = "general" }),
		rule(2, func(r *rules.Rule) { r.Replaces, r.Mode = []string{"general", "absent"}, rules.ModeShadow }))
	all := s.Explain(&Descriptor{User: "42"}, 1, noon)
	if want := "The rule applies. In shadow mode it replaces nothing; enforced, it would replace general."; len(all) !=
		2 || !all[0].Matched || all[1].Sentence != want {
		t.Errorf("got %+v", all)
	}
}

func TestMatchSpan_ARuleThatEndsReplacesNothing(t *testing.T) {
	soon := noon.Add(500 * time.Millisecond)
	s := compile(t, rule(1, func(r *rules.Rule) { r.Name = "general" }), rule(2, func(r *rules.Rule) {
		r.Replaces, r.Tiers = []string{"general"}, map[string]rules.TierLimit{"pro": {Unlimited: true}}
		r.ActiveUntil = &soon
	}))
	ms, err := s.MatchSpan(t.Context(), &Descriptor{User: "42", Tier: "pro"}, 1, noon, noon.Add(time.Second), nil)
	if err != nil || len(ms) != 1 || ms[0].Rule.Rule.Name != "general" {
		t.Errorf("got %+v, %v, want the general rule", ms, err)
	}
}
