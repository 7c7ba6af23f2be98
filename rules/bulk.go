package rules

// MaxBulk is how many rules one edit of many may be about.
const MaxBulk = 2000

// Seen is a version of a rule that someone looked at.
type Seen struct{ ID, Version int64 }

// BulkEdited says what one edit of many rules did.
type BulkEdited struct {
	// Changed rules were edited, Same ones were as wanted already.
	Changed, Same int
	// Left were left alone.
	Left []LeftAlone
}

// LeftAlone is a rule that an edit of many left as it is. Name is "" if it has
// been deleted. Err wraps ErrNotFound or ErrStale, or is a *ValidationError.
type LeftAlone struct {
	ID   int64
	Name string
	Err  error
}
