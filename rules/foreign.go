package rules

// Objects of other packages that people write, such as webhooks, have a table of fields too. These functions do with it
// what this package does with its own.

// NormalizeFields trims the texts of an object and fills in defaults.
func NormalizeFields[T any](fields []Field[T], t *T) { normalize(fields, t) }

// DiffFields is Diff for an object of such a table.
func DiffFields[T any](fields []Field[T], was, is *T) []Change { return diff(fields, was, is) }

// CheckFields returns a *ValidationError with more, and with what the bounds of a table say about a normalised object,
// in the order of its fields; nil if nothing is wrong.
func CheckFields[T any](fields []Field[T], t *T, more []FieldError) error {
	ps := problems(more)
	bounds(fields, t, "", &ps)
	if len(ps) == 0 {
		return nil
	}
	inOrder(fields, ps)
	return &ValidationError{Fields: ps}
}

// FreshFields returns an object whose fields are at their defaults.
func FreshFields[T any](fields []Field[T]) T { return fresh(fields) }
