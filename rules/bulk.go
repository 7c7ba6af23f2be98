package rules

// MaxBulk is the largest number of rules in one bulk edit.
const MaxBulk = 2000

// Seen identifies the version of a rule that a person saw.
type Seen struct{ ID, Version int64 }

// BulkEdited is the result of a bulk edit.
type BulkEdited struct {
	// Changed counts edited rules, Same those that already had the wanted content.
	Changed, Same int
	// Left lists the rules that were not edited.
	Left []LeftAlone
}

// LeftAlone is a rule that a bulk edit did not change. Name is "" if the rule was deleted. Err
// wraps ErrNotFound or ErrStale, or is a *ValidationError.
type LeftAlone struct {
	ID   int64
	Name string
	Err  error
}
