// Package rulestest makes rules for tests.
package rulestest

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/entries"
)

// Rule makes a valid rule to vary.
func Rule(id int64, edit func(*rules.Rule)) rules.Rule {
	r := rules.Rule{ID: id, Name: fmt.Sprintf("rule-%d", id), Scope: "user", Limit: 5, WindowMS: 1000, IsActive: true}
	if edit != nil {
		edit(&r)
	}
	r.Normalize()
	return r
}

// Entries makes a rule for a descriptor, written like entry("user=*") in its parts: key, key=value or
// key~pattern, with ! behind a shared pattern.
func Entries(id int64, descriptor string, edit func(*rules.Rule)) rules.Rule {
	return Rule(id, func(r *rules.Rule) {
		domain, list, _ := strings.Cut(descriptor, ":")
		r.Scope, r.Route, r.Method, r.Algorithm = "", nil, nil, "fixed_window"
		r.Descriptor = &rules.RuleDescriptor{Domain: domain}
		for word := range strings.FieldsSeq(list) {
			var e entries.Element
			if key, pattern, ok := strings.Cut(word, "~"); ok {
				e.Key = key
				e.Pattern, e.Shared = strings.CutSuffix(pattern, "!")
			} else {
				e.Key, e.Value, _ = strings.Cut(word, "=")
			}
			r.Descriptor.Entries = append(r.Descriptor.Entries, e)
		}
		if edit != nil {
			edit(r)
		}
	})
}

// Segment draws a segment of a path.
func Segment() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"a", "b", "v1", "users"})
}

func genRuleRoute() *rapid.Generator[*string] {
	return rapid.Custom(func(t *rapid.T) *string {
		if rapid.IntRange(0, 4).Draw(t, "none") == 0 {
			return nil
		}
		route := ""
		for range rapid.IntRange(0, 4).Draw(t, "depth") {
			route += "/" + rapid.OneOf(Segment(), rapid.SampledFrom([]string{"{id}", "{x}"})).Draw(t, "segment")
		}
		if rapid.IntRange(0, 2).Draw(t, "tail") == 0 {
			route += "/*"
		} else if route == "" {
			route = "/"
		}
		return &route
	})
}

// Generate draws rules.
func Generate(id int64) *rapid.Generator[rules.Rule] {
	optional := func(words ...string) *rapid.Generator[*string] {
		return rapid.Ptr(rapid.SampledFrom(words), true)
	}
	return rapid.Custom(func(t *rapid.T) rules.Rule {
		r := rules.Rule{
			ID: id, Name: fmt.Sprintf("rule-%d", id),
			Scope: rapid.SampledFrom([]string{
				"global", "user", "ip", "apikey", "tier", "user+ip", "ip+user", "attr:t", "attr:u+attr:t", "route+user",
				"method+ip+tier", "host", "host+user", "route+host",
			}).Draw(t, "scope"),
			Route:       genRuleRoute().Draw(t, "route"),
			Method:      optional("GET", "POST", "PURGE").Draw(t, "method"),
			Host:        optional("a.com", "b.a.com", "*.a.com", "*.b.a.com", "*.com", "10.0.0.1").Draw(t, "host"),
			Algorithm:   rapid.SampledFrom(limiter.Algorithms()).Draw(t, "algorithm").String(),
			Limit:       rapid.Int64Range(0, 1000).Draw(t, "limit"),
			WindowMS:    rapid.Int64Range(1, 100_000).Draw(t, "window"),
			WeightField: optional("bytes", "rows").Draw(t, "weight_field"),
			LimitField:  optional("run_budget").Draw(t, "limit_field"),
			IsActive:    rapid.IntRange(0, 5).Draw(t, "active") > 0,
		}
		if r.Algorithm != limiter.FixedWindow.String() {
			r.LimitField = nil
		}
		r.Normalize()
		return r
	})
}
