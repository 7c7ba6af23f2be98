package rules

import (
	"strings"
	"testing"

	"sluice/rules/entries"
)

func TestFile_CheckUniqueFindsTwoRulesOfADescriptor(t *testing.T) {
	of := func(name, value string) Rule {
		d := &RuleDescriptor{"shop", []entries.Element{{Key: "k", Value: value}}}
		return Rule{Name: name, IsActive: true, Descriptor: d}
	}
	off := of("d", "one")
	off.IsActive = false
	stored := File{Rules: []Rule{of("a", "one"), of("b", "two"), {Name: "c", IsActive: true}}}
	const taken = "rules[1].descriptor is the same in the active rules "
	for name, c := range map[string]struct {
		file  []Rule
		prune bool
		want  string
	}{
		"one more":              {file: []Rule{of("d", "three"), {Name: "e", IsActive: true}}},
		"of another rule":       {file: []Rule{of("d", "three"), of("c", "two")}, want: taken + "b and c"},
		"of a deleted rule":     {file: []Rule{of("c", "two")}, prune: true},
		"exchanged":             {file: []Rule{of("a", "two"), of("b", "one")}},
		"twice in the file":     {file: []Rule{of("x", "new"), of("y", "new")}, want: taken + "x and y"},
		"of a rule that is off": {file: []Rule{off}},
	} {
		t.Run(name, func(t *testing.T) {
			file, got := File{Rules: c.file}, ""
			if err := file.CheckUnique(stored, c.prune); err != nil {
				got = strings.TrimPrefix(err.Error(), "invalid: ")
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Two descriptors are the same if they apply to the same descriptors of Envoy, whatever their texts are.
func TestRuleDescriptor_Identity(t *testing.T) {
	list := []RuleDescriptor{
		{"d", []entries.Element{{Key: "a"}}}, {"e", []entries.Element{{Key: "a"}}},
		{"d", []entries.Element{{Key: "a", Value: "*"}}}, {"d", []entries.Element{{Key: "a", Pattern: "*"}}},
		{"d", []entries.Element{{Key: "a"}, {Key: "b"}}}, {"d", []entries.Element{{Key: `a"],["b`}}},
	}
	seen := map[string]bool{}
	for _, d := range list {
		seen[d.Identity()] = true
	}
	if len(seen) != len(list) {
		t.Errorf("%d descriptors have %d identities", len(list), len(seen))
	}
	shared := RuleDescriptor{"d", []entries.Element{{Key: "a", Pattern: "*", Shared: true}}}
	if !seen[shared.Identity()] {
		t.Error("a shared pattern is another descriptor")
	}
}
