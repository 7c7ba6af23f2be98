package rules

import "fmt"

// Diff lists the fields in which two rules differ, in the order of the JSON
// form. Id, version and times do not count. A nil rule has null in every field,
// so Diff(nil, r) is what creating r sets; both nil differ in nothing.
func Diff(oldRule, newRule *Rule) []Change { return diff(ruleFields, oldRule, newRule) }

// Merge is theirs with the named fields, by their JSON names, taken from ours.
// Identity, version and times stay theirs. An unknown name is an error. It is
// for two people who edited the same rule; whether the result is valid is for
// Validate.
func Merge(theirs, ours *Rule, fromOurs []string) (Rule, error) {
	r, from := theirs.Clone(), ours.Clone()
	for _, name := range fromOurs {
		f := FieldNamed(name)
		if f == nil {
			return Rule{}, fmt.Errorf("a rule has no field %.40q", name)
		}
		f.assign(&r, &from)
	}
	return r, nil
}
