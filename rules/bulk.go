package rules

// MaxBulk is the largest number of rules in one bulk edit.
const MaxBulk = 2000

// SeenVersion identifies the version of a rule that a person saw.
type SeenVersion struct{ ID, Version int64 }

// BulkResult is the result of a bulk edit.
type BulkResult struct {
	// Changed counts edited rules, Same the rules that already had the wanted content.
	Changed, Same int
	// Skipped lists the rules that were not edited.
	Skipped []SkippedRule
}

// SkippedRule is a rule that a bulk edit did not change. Name is "" if the rule was deleted. Err
// wraps ErrNotFound or ErrStale, or is a *field.ValidationError.
type SkippedRule struct {
	ID   int64
	Name string
	Err  error
}
