package webtest

import (
	"net/url"
	"strings"

	"sluice/internal/access"
	"sluice/rules"
	envoy "sluice/rules/entries"
)

// DescriptorRule is the id of the rule that AddDescriptors adds, which has every setting of a descriptor.
const DescriptorRule = 13

// AddDescriptors adds rules for descriptors of Envoy.
func AddDescriptors(w *World) {
	long := strings.Repeat("long-", 50)
	for i, r := range []rules.Rule{
		{Name: "envoy-payments", Description: "Imported from Envoy's configuration.", Limit: 60, WindowMS: 60_000,
			Algorithm: "fixed_window", Addend: rules.AddendCharge, Quota: true, ShareThreshold: true,
			Replaces: []string{"envoy-everyone"}, Metadata: map[string]string{"team": "payments"},
			Descriptor: &rules.RuleDescriptor{Domain: "shop", Entries: []envoy.Element{{Key: "path", Pattern: "/v1/pay*"},
				{Key: "user"}}}},
		{Name: "envoy-staff", Unlimited: true,
			Descriptor: &rules.RuleDescriptor{Domain: "shop", Entries: []envoy.Element{{Key: "plan", Value: "staff"}}}},
		{Name: "envoy-long", Limit: 5, WindowMS: 1000, Mode: rules.ModeShadow,
			Descriptor: &rules.RuleDescriptor{Domain: long, Entries: []envoy.Element{{Key: long, Value: long}, {Key: long}}}},
	} {
		r.ID, r.Version, r.IsActive = DescriptorRule+int64(i), 1, true
		r.CreatedAt, r.UpdatedAt = Now, Now
		r.Normalize()
		w.Rules.List = append(w.Rules.List, r)
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
		{Name: "override-descriptor", About: "New override of a rule for Envoy", Role: access.RoleEditor,
			Path: "/console/rules/13/overrides/new", Prepare: AddDescriptors},
	}
}
