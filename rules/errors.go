package rules

import (
	"errors"
	"strings"
)

// The few kinds of failure that every surface maps once (HTTP status, exit
// code, form message). Wrap them; test with errors.Is.
var (
	// ErrNotFound: no such rule, revision or token.
	ErrNotFound = errors.New("not found")
	// ErrNameTaken: another rule has this name.
	ErrNameTaken = errors.New("name is taken")
	// ErrStale: the rule changed since the version the caller knew.
	ErrStale = errors.New("changed by someone else")
	// ErrPoolUsed: rules still name the pool.
	ErrPoolUsed = errors.New("rules use the pool")
	// ErrUnavailable: the rule database cannot be reached.
	ErrUnavailable = errors.New("rules database unavailable")
	// ErrDiskFull: the disk under the embedded database has no room left. It comes
	// together with ErrUnavailable, as does ErrDiskFailing.
	ErrDiskFull = errors.New("disk full")
	// ErrDiskFailing: reading from or writing to that disk fails.
	ErrDiskFailing = errors.New("disk failing")
	// ErrBusy: the database answers, but another change held it for too long. It comes
	// together with ErrUnavailable.
	ErrBusy = errors.New("another change is being written")
)

// FieldError says what is wrong with one field, by its JSON name (such as
// "window_ms", or "rules[3].scope" in an import).
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// ValidationError carries every field error of one input.
type ValidationError struct {
	Fields []FieldError
}

func (e *ValidationError) Error() string {
	msgs := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		msgs[i] = f.Field + " " + f.Message
	}
	return "invalid: " + strings.Join(msgs, "; ")
}
