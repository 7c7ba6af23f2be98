package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice/rules/chars"
	"sluice/rules/entries"
	"sluice/rules/field"
)

// RuleDescriptor says to which descriptors of Envoy a rule applies: descriptors of a domain with as many entries as
// Entries, each of which fits the element in its place.
type RuleDescriptor struct {
	Domain  string            `json:"domain"`
	Entries []entries.Element `json:"entries"`
}

// Words of Rule.Addend, as written in JSON and SQL.
const (
	AddendTake   = "take"
	AddendCharge = "charge"
)

// Bounds of a descriptor, and of what belongs to rules with one. Texts are measured in bytes.
const (
	MaxEntries       = 32
	MaxEntryValue    = 1024
	MaxReplaces      = 64
	MaxMetadata      = 32
	MaxMetadataName  = 63
	MaxMetadataValue = 255
)

var descriptorFields = []field.Field[RuleDescriptor]{
	{Name: "domain", At: func(d *RuleDescriptor) any { return &d.Domain }, Required: true},
	{
		Name: "entries", At: func(d *RuleDescriptor) any { return &d.Entries },
		Noun: "entries", Composite: field.ListOf(elementFields, MaxEntries),
	},
}

var elementFields = []field.Field[entries.Element]{
	{Name: "key", At: func(e *entries.Element) any { return &e.Key }, Required: true},
	{Name: "value", At: func(e *entries.Element) any { return &e.Value }},
	{Name: "pattern", At: func(e *entries.Element) any { return &e.Pattern }},
	{Name: "shared", At: func(e *entries.Element) any { return &e.Shared }},
}

// validateOrdinary refuses what belongs to rules with a descriptor.
func validateOrdinary(r *Rule, ps *field.Problems) {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"addend", r.Addend == AddendCharge}, {"quota", r.Quota},
		{"share_threshold", r.ShareThreshold}, {"metadata", len(r.Metadata) > 0},
	} {
		ps.Belongs(f.name, f.given, false, false, "a descriptor")
	}
}

// validateDescriptor checks the descriptor of a rule that has one, and its combinations with other members.
func validateDescriptor(r *Rule, ps *field.Problems) {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"scope", r.Scope != ""}, {"route", r.Route != nil}, {"method", r.Method != nil}, {"host", r.Host != nil},
		{"when", r.When != nil},
		{"tiers", len(r.Tiers) > 0}, {"weight_field", r.WeightField != nil},
		{"limit_field", r.LimitField != nil}, {"pool", r.Pool != nil},
		{"throttle", r.Throttle == ThrottleElastic}, {"charge_on", r.ChargeOn == ChargeOnReport},
		{"over_limit", r.OverLimit == OverLimitDefer},
	} {
		if f.given {
			ps.Add(f.name, "does not apply to a rule with a descriptor; leave it out")
		}
	}
	d := r.Descriptor
	checkEntryText(ps, "descriptor.domain", d.Domain, 1, entries.MaxDomain)
	if len(d.Entries) < 1 || len(d.Entries) > MaxEntries {
		ps.Add("descriptor.entries", "must be a list of 1 to %d entries", MaxEntries)
	} else {
		for i := range d.Entries {
			validateElement(field.Path("descriptor.entries", i), &d.Entries[i], ps)
		}
	}
	if r.ShareThreshold && !slices.ContainsFunc(d.Entries, func(e entries.Element) bool { return e.Pattern != "" }) {
		ps.Add("share_threshold", "applies only to entries with a pattern; leave it out")
	}
	if r.Addend == AddendCharge && r.Traits().Slots {
		ps.Add("addend", "must be take for concurrency, whose leases are not charged")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Metadata)) {
		at := "metadata." + field.SafeField(name)
		if name == "" || len(name) > MaxMetadataName || !isText(name) {
			ps.Add(at, "must have a name of 1 to %d bytes of text", MaxMetadataName)
			continue
		}
		checkEntryText(ps, at, r.Metadata[name], 0, MaxMetadataValue)
	}
}

func validateElement(at string, e *entries.Element, ps *field.Problems) {
	checkEntryText(ps, at+".key", e.Key, 1, entries.MaxKey)
	checkEntryText(ps, at+".value", e.Value, 0, MaxEntryValue)
	checkEntryText(ps, at+".pattern", e.Pattern, 0, MaxEntryValue)
	switch {
	case e.Pattern == "":
		ps.Belongs(at+".shared", e.Shared, false, false, "a pattern")
	case e.Value != "":
		ps.Add(at+".pattern", "cannot be combined with a value; leave one of them out")
	case !strings.Contains(e.Pattern, "*"):
		ps.Add(at+".pattern", "must contain *, which stands for any text; use value for an exact text")
	}
}

// checkEntryText checks the length of a text that comes from or goes to Envoy.
func checkEntryText(ps *field.Problems, at, s string, least, most int) {
	switch {
	case len(s) < least || len(s) > most:
		ps.Add(at, "must have %s", bytesBetween(least, most))
	case !isText(s):
		ps.Add(at, "must be valid UTF-8 without zero bytes")
	}
}

func bytesBetween(least, most int) string {
	if least == 0 {
		return fmt.Sprintf("at most %d bytes", most)
	}
	return fmt.Sprintf("%d to %d bytes", least, most)
}

// isText reports whether JSON and both databases can hold a text.
func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// String returns the descriptor for people: "shop: path=/pay, user".
func (d *RuleDescriptor) String() string {
	out := append(chars.AppendShown(nil, d.Domain, nil), ':')
	for i := range d.Entries {
		e := &d.Entries[i]
		if i > 0 {
			out = append(out, ',')
		}
		out = chars.AppendShown(append(out, ' '), e.Key, nil)
		if text := e.Value + e.Pattern; text != "" {
			out = chars.AppendShown(append(out, '='), text, nil)
		}
	}
	return string(out)
}

// Varying returns the keys of the entries of a rule with a descriptor whose values have buckets of
// their own.
func (r *Rule) Varying() (keys []string) {
	for i := range r.Descriptor.Entries {
		if e := &r.Descriptor.Entries[i]; e.Value == "" && r.SharedPattern(i) == "" {
			keys = append(keys, chars.Shown(e.Key))
		}
	}
	return keys
}

// Sharing returns the keys of the entries of a rule with a descriptor whose values share a bucket if they fit the
// pattern.
func (r *Rule) Sharing() (keys []string) {
	for i := range r.Descriptor.Entries {
		if r.SharedPattern(i) != "" {
			keys = append(keys, chars.Shown(r.Descriptor.Entries[i].Key))
		}
	}
	return keys
}

// SharedPattern returns the pattern that stands for the value of entry i, "" if the value does.
func (r *Rule) SharedPattern(i int) string {
	if r == nil {
		return ""
	}
	if e := &r.Descriptor.Entries[i]; e.Shared || r.ShareThreshold {
		return e.Pattern
	}
	return ""
}
