package rules

import (
	"fmt"

	"sluice/rules/field"
)

// Diff lists the fields in which two rules differ, in the order of the JSON form, except id,
// version and times. A nil rule has null in every field, so Diff(nil, r) lists what creating r
// sets. Two nil rules do not differ.
func Diff(oldRule, newRule *Rule) []field.Change { return field.Diff(ruleFields, oldRule, newRule) }

// Merge returns theirs with the named fields, by their JSON names, taken from ours. Identity, version and times are
// taken from theirs. An unknown name is an error. Merge serves two people who edited the same rule. The result may be
// invalid; call Validate.
func Merge(theirs, ours *Rule, fromOurs []string) (Rule, error) {
	r, from := theirs.Clone(), ours.Clone()
	for _, name := range fromOurs {
		f := FieldNamed(name)
		if f == nil {
			return Rule{}, fmt.Errorf("a rule has no field %.40q", name)
		}
		f.Assign(&r, &from)
	}
	return r, nil
}
