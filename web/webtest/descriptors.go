package webtest

import (
	"net/url"
	"strings"

	"sluice/internal/access"
	"sluice/rules"
	envoy "sluice/rules/entries"
	"sluice/rules/profile"
)

// DescriptorRule is the id of the rule that AddDescriptors adds, which has every setting of a descriptor.
const DescriptorRule = 13

// longText is about as long as a domain or a key can be.
var longText = strings.Repeat("long-", 50)

// AddDescriptors adds rules for descriptors of Envoy.
func AddDescriptors(w *World) {
	for i, r := range []rules.Rule{
		{Name: "envoy-payments", Description: "Imported from Envoy's configuration.", Limit: 60, WindowMS: 60_000,
			Algorithm: "fixed_window", Addend: rules.AddendCharge, Quota: true, ShareThreshold: true,
			Replaces: []string{"envoy-everyone"}, Metadata: map[string]string{"team": "payments"},
			Descriptor: &rules.RuleDescriptor{Domain: "shop", Entries: []envoy.Element{{Key: "path", Pattern: "/v1/pay*"},
				{Key: "user"}}}},
		{Name: "envoy-staff", Unlimited: true,
			Descriptor: &rules.RuleDescriptor{Domain: "shop", Entries: []envoy.Element{{Key: "plan", Value: "staff"}}}},
		{Name: "envoy-long", Limit: 5, WindowMS: 1000, Mode: rules.ModeShadow,
			Descriptor: &rules.RuleDescriptor{Domain: longText, Entries: []envoy.Element{{Key: longText, Value: longText},
				{Key: longText}}}},
	} {
		r.ID, r.Version, r.IsActive = DescriptorRule+int64(i), 1, true
		r.CreatedAt, r.UpdatedAt = Now, Now
		r.Normalize()
		w.Rules.List = append(w.Rules.List, r)
	}
	mustCompile(w)
}

// mustCompile puts canned rules and profiles in force.
func mustCompile(w *World) {
	if err := w.Compile(); err != nil {
		panic(err) // canned data is valid
	}
}

// descriptorPages are the pages of rules for descriptors.
func descriptorPages() []Shown {
	return []Shown{
		{Name: "rules-descriptors", About: "Rules for Envoy", Role: access.RoleEditor, Path: "/console/rules?q=envoy",
			Prepare: AddDescriptors},
		{Name: "rule-descriptor", About: "Rule for Envoy", Role: access.RoleEditor, Path: "/console/rules/13",
			Prepare: AddDescriptors},
		{Name: "rule-descriptor-edit", About: "Edit a rule for Envoy", Role: access.RoleEditor,
			Path: "/console/rules/13/edit", Prepare: AddDescriptors},
		{Name: "rule-descriptor-errors", About: "New rule for Envoy, invalid", Role: access.RoleEditor,
			Path: "/console/rules", Form: url.Values{"kind": {"descriptor"}, "name": {"envoy"},
				"descriptor.entries": {"user\n=a"}, "limit": {"5"},
				"window_ms": {"1"}, "window_ms.unit": {"minute"}, "replaces": {"B b"}, "metadata": {"team"}}},
		{Name: "explain-call", About: "Explain a call of Envoy", Role: access.RoleViewer, Path: "/console/explain",
			Form: url.Values{"domain": {"shop"}, "addend": {"61"},
				"entries": {"path=/v1/pay/now\nuser=42\n\nplan=staff\n\npath=/other"}}, Prepare: AddDescriptors},
		{Name: "explain-call-long", About: "Explain a call of Envoy, long texts", Role: access.RoleViewer,
			Path: "/console/explain", Prepare: AddDescriptors, Form: url.Values{"domain": {longText},
				"entries": {longText + "=" + longText + "\n" + longText + "=" + longText}}},
		{Name: "explain-call-facts", About: "Explain a call of Envoy by facts", Role: access.RoleViewer,
			Path: "/console/explain", Form: url.Values{"domain": {"edge"}, "addend": {""},
				"entries": {"path=/users/17\nuser=42\n\ntenant=acme"}}, Prepare: func(w *World) {
				w.Profiles.List[1].Missing = map[string]profile.MissingFact{}
				mustCompile(w)
			}},
		{Name: "explain-call-errors", About: "Explain a call of Envoy, invalid", Role: access.RoleViewer,
			Path: "/console/explain", Form: url.Values{"domain": {""}, "entries": {"path"}, "addend": {"-1"}}},
		{Name: "explain-call-rule", About: "Explain a rule for Envoy", Role: access.RoleViewer,
			Path: "/console/explain?rule=13", Prepare: AddDescriptors},
		{Name: "override-descriptor", About: "New override of a rule for Envoy", Role: access.RoleEditor,
			Path: "/console/rules/13/overrides/new", Prepare: AddDescriptors},
	}
}
