package rules

import "sluice/rules/field"

// MaxBulk is the largest number of rules in one bulk edit of the console.
const MaxBulk = 2000

// SeenVersion identifies the version of a rule that a person saw. Version 0 stands for any version.
type SeenVersion struct{ ID, Version int64 }

// BulkResult is the result of a bulk edit.
type BulkResult struct {
	// Changed counts edited rules, Same the rules that already had the wanted content.
	Changed, Same int
	// Skipped lists the rules that were not edited.
	Skipped []SkippedRule
	// Bulk identifies the edit, for undoing it; 0 if nothing was edited, or for deletions.
	Bulk int64
}

// Skip adds a rule that the edit does not change.
func (b *BulkResult) Skip(id int64, name string, err error) {
	b.Skipped = append(b.Skipped, SkippedRule{ID: id, Name: name, Err: err})
}

// SkippedRule is a rule that a bulk edit did not change. Name is "" if the rule was deleted and its name is not known.
// Err wraps ErrNotFound or ErrStale, or is a *field.ValidationError or a *TakenError.
type SkippedRule struct {
	ID   int64
	Name string
	Err  error
}

// UndoPlan is what undoing a bulk edit would do now.
type UndoPlan struct {
	// BulkResult counts as undoing would, with Bulk 0.
	BulkResult
	// Sample has the first rules by id that would be edited.
	Sample []UndoneRule
}

// UndoneRule is a rule that undoing a bulk edit would edit, and the differences that this would make.
type UndoneRule struct {
	Rule    Rule
	Changes []field.Change
}
