package rules

import "sluice/rules/field"

// Decisive returns those of the changes of a rule that can change what its limit decides: nil for an edit of the
// description, the owner or the fail mode alone.
func Decisive(changes []field.Change) (out []field.Change) {
	for _, c := range changes {
		if f := FieldNamed(c.Field); f == nil || !f.Label && !f.Aside {
			out = append(out, c)
		}
	}
	return out
}
