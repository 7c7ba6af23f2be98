package rules

import (
	"fmt"
	"slices"
	"strings"

	"sluice/rules/field"
)

// NamedError says that a rule cannot be deleted, because other rules name it in replaces.
type NamedError struct {
	Name string
	By   []string
}

// Error implements error.
func (e *NamedError) Error() string {
	return fmt.Sprintf("rule %s is named in replaces by %s", e.Name, strings.Join(e.By, ", "))
}

// validateReplaces checks only the names; ReplacesProblems compares them with the existing rules.
func validateReplaces(r *Rule, ps *field.Problems) {
	for i, name := range r.Replaces {
		switch at := field.Path("replaces", i); {
		case !field.ValidName(name):
			ps.Add(at, "must be the name of a rule: %s", field.NameHelp)
		case name == r.Name:
			ps.Add(at, "must not be the rule itself")
		case slices.Contains(r.Replaces[:i], name):
			ps.Add(at, "must not name a rule twice")
		}
	}
}

// ReplacesProblems returns the wrong names in replaces. kinds says for each existing rule whether it has a descriptor.
// A rule with a descriptor may name a rule that does not exist, as in envoyproxy/ratelimit.
func (r *Rule) ReplacesProblems(kinds map[string]bool) []field.Problem {
	var ps field.Problems
	for i, name := range r.Replaces {
		described, exists := kinds[name]
		switch at := field.Path("replaces", i); {
		case !exists && r.Descriptor == nil:
			ps.Add(at, "names the rule %s, which does not exist", name)
		case exists && described && r.Descriptor == nil:
			ps.Add(at, "names the rule %s, which has a descriptor, while this rule has none", name)
		case exists && !described && r.Descriptor != nil:
			ps.Add(at, "names the rule %s, which has no descriptor, while this rule has one", name)
		}
	}
	return ps
}

// CheckReplaces refuses an import of the file after which a rule would replace a rule that does not exist, or one of
// the other kind. current and prune are as in MakeFilePlan. The error is a *field.ValidationError.
func (f *File) CheckReplaces(current File, prune bool) error {
	var ps field.Problems
	kinds := make(map[string]bool, len(f.Rules)+len(current.Rules))
	if !prune {
		for i := range current.Rules {
			kinds[current.Rules[i].Name] = current.Rules[i].Descriptor != nil
		}
	}
	for i := range f.Rules {
		kinds[f.Rules[i].Name] = f.Rules[i].Descriptor != nil
	}
	for i := range f.Rules {
		ps.Under(field.Path("rules", i), f.Rules[i].ReplacesProblems(kinds))
	}
	if len(ps) > MaxFileErrors {
		ps = ps[:MaxFileErrors]
	}
	if len(ps) > 0 {
		return &field.ValidationError{Fields: ps}
	}
	return nil
}
