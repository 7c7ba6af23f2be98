package rules

import (
	"fmt"

	"sluice/rules/field"
	"sluice/rules/when"
)

// CheckPatterns refuses a rule with a pattern above when.MaxPattern, or whose condition compares ip with a network,
// unless was, the stored rule, has the same condition. was is nil for a new rule. The error is a *field.ValidationError
// of the field when.
func CheckPatterns(was, is *Rule) error {
	if was != nil && sameText(was.When, is.When) {
		return nil
	}
	if size := when.SizePatterns(is.When); size.Mistake != "" {
		return &field.ValidationError{Fields: []field.Problem{{Field: "when", Message: size.Mistake}}}
	}
	return nil
}

func sameText(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// TooManyPatterns returns the error for a change of a field that leads to a total above
// MaxPatterns.
func TooManyPatterns(member string, total int) error {
	return &field.ValidationError{Fields: []field.Problem{{Field: member, Message: fmt.Sprintf(
		"the patterns in the conditions of all rules would have %d instructions, at most %d are allowed", total,
		when.MaxPatterns)}}}
}

// CheckPatterns applies the bounds to a file that is imported over the current rules, as for
// writes of single rules. The fields are rules[i].when, and rules for the total.
func (f *File) CheckPatterns(current []Rule, prune bool) error {
	stored := make(map[string]*Rule, len(current))
	for i := range current {
		stored[current[i].Name] = &current[i]
	}
	var ps field.Problems
	before, after := 0, 0
	for i := range f.Rules {
		is := &f.Rules[i]
		was := stored[is.Name]
		if was == nil || !sameText(was.When, is.When) {
			size := when.SizePatterns(is.When)
			after += size.Total
			if size.Mistake != "" && len(ps) < MaxFileErrors {
				ps.Add(field.Path("rules", i)+".when", "%s", size.Mistake)
			}
			if was != nil {
				before += when.SizePatterns(was.When).Total
			}
		}
		delete(stored, is.Name)
	}
	if len(ps) > 0 {
		return &field.ValidationError{Fields: ps}
	}
	if after <= before { // adds nothing
		return nil
	}
	total := 0
	for i := range f.Rules {
		total += when.SizePatterns(f.Rules[i].When).Total
	}
	if !prune {
		for _, r := range stored {
			total += when.SizePatterns(r.When).Total
		}
	}
	if total > when.MaxPatterns {
		return TooManyPatterns("rules", total)
	}
	return nil
}
