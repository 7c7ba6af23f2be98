package match

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/field"
)

func TestValidate_WhatBelongsToADescriptor(t *testing.T) {
	many := func(n int) (list []entries.Element) {
		for range n {
			list = append(list, entries.Element{Key: "k"})
		}
		return list
	}
	metadata := map[string]string{}
	for i := range rules.MaxMetadata + 1 {
		metadata[fmt.Sprint(i)] = ""
	}
	for _, tt := range []struct {
		field string // of the only problem, "" for none
		edit  func(*rules.Rule)
	}{
		{"", func(*rules.Rule) {}},
		{"scope", func(r *rules.Rule) { r.Scope = "user" }},
		{"route", func(r *rules.Rule) { r.Route = new("/a") }},
		{"method", func(r *rules.Rule) { r.Method = new("GET") }},
		{"when", func(r *rules.Rule) { r.When = new("weight > 1") }},
		{"tiers", func(r *rules.Rule) { r.Tiers = map[string]rules.TierLimit{"free": {Limit: new(int64(1))}} }},
		{"weight_field", func(r *rules.Rule) { r.WeightField = new("bytes") }},
		{"pool", func(r *rules.Rule) { r.Pool = new("shop") }},
		{"throttle", func(r *rules.Rule) {
			r.Throttle, r.ElasticPercent, r.Pool = rules.ThrottleElastic, new(int64(5)), nil
		}},
		{"charge_on", func(r *rules.Rule) { r.ChargeOn = rules.ChargeOnReport }},
		{"over_limit", func(r *rules.Rule) { r.OverLimit = rules.OverLimitDefer }},
		{"addend", func(r *rules.Rule) { r.Addend, r.Algorithm = rules.AddendCharge, "concurrency" }},
		{"", func(r *rules.Rule) { r.Addend = rules.AddendCharge }},
		{"", func(r *rules.Rule) { r.Unlimited, r.Limit, r.WindowMS = true, 0, 0 }},
		{"", func(r *rules.Rule) { r.Limit = 0 }},
		{"", func(r *rules.Rule) { r.Throttle, r.SoftPercent = rules.ThrottleSoft, new(int64(5)) }},
		{"descriptor.domain", func(r *rules.Rule) { r.Descriptor.Domain = "" }},
		{"", func(r *rules.Rule) { r.Descriptor.Domain = strings.Repeat("d", 255) }},
		{"descriptor.domain", func(r *rules.Rule) { r.Descriptor.Domain = strings.Repeat("d", 256) }},
		{"descriptor.domain", func(r *rules.Rule) { r.Descriptor.Domain = "\xff" }},
		{"descriptor.domain", func(r *rules.Rule) { r.Descriptor.Domain = "a\x00" }},
		{"descriptor.entries", func(r *rules.Rule) { r.Descriptor.Entries = nil }},
		{"", func(r *rules.Rule) { r.Descriptor.Entries = many(32) }},
		{"descriptor.entries", func(r *rules.Rule) { r.Descriptor.Entries = many(33) }},
		{"descriptor.entries[1].key", func(r *rules.Rule) {
			r.Descriptor.Entries = append(many(1),
				entries.Element{Value: "v"})
		}},
		{"", func(r *rules.Rule) { r.Descriptor.Entries[0].Key = strings.Repeat("k", 255) }},
		{"descriptor.entries[0].key", func(r *rules.Rule) { r.Descriptor.Entries[0].Key = strings.Repeat("k", 256) }},
		{"", func(r *rules.Rule) { r.Descriptor.Entries[0].Value = strings.Repeat("v", 1024) }},
		{"descriptor.entries[0].value", func(r *rules.Rule) { r.Descriptor.Entries[0].Value = strings.Repeat("v", 1025) }},
		{"", func(r *rules.Rule) { r.Descriptor.Entries[0].Pattern = strings.Repeat("*", 1024) }},
		{"descriptor.entries[0].pattern", func(r *rules.Rule) {
			r.Descriptor.Entries[0].Pattern = strings.Repeat("*",
				1025)
		}},
		{"descriptor.entries[0].pattern", func(r *rules.Rule) { r.Descriptor.Entries[0].Pattern = "exact" }},
		{"descriptor.entries[0].pattern", func(r *rules.Rule) {
			r.Descriptor.Entries[0].Value, r.Descriptor.Entries[0].Pattern = "a", "a*"
		}},
		{"descriptor.entries[0].shared", func(r *rules.Rule) { r.Descriptor.Entries[0].Shared = true }},
		{"share_threshold", func(r *rules.Rule) { r.ShareThreshold = true }},
		{"", func(r *rules.Rule) { r.ShareThreshold, r.Descriptor.Entries[0].Pattern = true, "a*" }},
		{"", func(r *rules.Rule) { r.Replaces = []string{"other", "third"} }},
		{"replaces[0]", func(r *rules.Rule) { r.Replaces = []string{"No Name"} }},
		{"replaces[0]", func(r *rules.Rule) { r.Replaces = []string{r.Name} }},
		{"replaces[1]", func(r *rules.Rule) { r.Replaces = []string{"a", "a"} }},
		{"", func(r *rules.Rule) {
			r.Metadata = map[string]string{strings.Repeat("n", 63): strings.Repeat("v", 255), "line\n": "\n"}
		}},
		{"metadata." + field.SafeField(strings.Repeat("n", 64)), func(r *rules.Rule) {
			r.Metadata = map[string]string{strings.Repeat("n", 64): "v"}
		}},
		{"metadata.a", func(r *rules.Rule) { r.Metadata = map[string]string{"a": strings.Repeat("v", 256)} }},
		{"metadata", func(r *rules.Rule) { r.Metadata = metadata }},
		// Without a descriptor.
		{"addend", ordinaryWith(func(r *rules.Rule) { r.Addend = rules.AddendCharge })},
		{"quota", ordinaryWith(func(r *rules.Rule) { r.Quota = true })},
		{"replaces[1]", ordinaryWith(func(r *rules.Rule) { r.Replaces = []string{"a", "a"} })},
		{"replaces[0]", ordinaryWith(func(r *rules.Rule) { r.Replaces = []string{r.Name} })},
		{"share_threshold", ordinaryWith(func(r *rules.Rule) { r.ShareThreshold = true })},
		{"metadata", ordinaryWith(func(r *rules.Rule) { r.Metadata = map[string]string{"a": "b"} })},
	} {
		r := entryRule(7, "shop:user", tt.edit)
		err := rules.Validate(&r)
		var invalid *field.ValidationError
		switch errors.As(err, &invalid); {
		case tt.field == "" && err != nil:
			t.Errorf("refused: %.200v", err)
		case tt.field == "":
			if _, err := Compile([]rules.Rule{r}, 1, Options{}); err != nil {
				t.Errorf("does not compile: %v", err)
			}
		case invalid == nil || !hasField(invalid, tt.field):
			t.Errorf("%s: got %.200v", tt.field, err)
		}
	}
}

func ordinaryWith(edit func(*rules.Rule)) func(*rules.Rule) {
	return func(r *rules.Rule) {
		r.Descriptor, r.Scope = nil, "user"
		edit(r)
	}
}

func hasField(e *field.ValidationError, field string) bool {
	for _, f := range e.Fields {
		if f.Field == field {
			return true
		}
	}
	return false
}

// TestPolicies_ADamagedFlagIsRefused: neither value of a flag is invalid by itself.
func TestPolicies_ADamagedFlagIsRefused(t *testing.T) {
	for _, name := range []string{"unlimited", "quota", "share_threshold"} {
		r := entryRule(7, "shop:user", nil)
		text := `{"descriptor":{"domain":"shop","entries":[{"key":"user"}]},"` + name + `":"half"}`
		if err := r.UnmarshalPolicies([]byte(text)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
		if err := rules.Validate(&r); err == nil {
			t.Errorf("a rule with a damaged %s is valid", name)
		}
	}
}
