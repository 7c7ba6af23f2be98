package rules

import (
	"errors"

	"sluice/rules/field"
)

// The kinds of failure. Every surface maps each of them once (HTTP status, exit code, form
// message). Wrap them and test with errors.Is.
var (
	// ErrNotFound: there is no such rule, revision or token.
	ErrNotFound = errors.New("not found")
	// ErrNameTaken: another rule has this name.
	ErrNameTaken = errors.New("name is taken")
	// ErrStale: the rule changed since the version that the caller knows.
	ErrStale = errors.New("changed by someone else")
	// ErrPoolUsed: rules still use the pool.
	ErrPoolUsed = errors.New("rules use the pool")
	// ErrUnavailable: the rules database is unreachable.
	ErrUnavailable = errors.New("rules database unavailable")
	// ErrDiskFull: the disk under the embedded database is full. It is always joined with
	// ErrUnavailable, as is ErrDiskFailing.
	ErrDiskFull = errors.New("disk full")
	// ErrDiskFailing: reading from or writing to that disk fails.
	ErrDiskFailing = errors.New("disk failing")
	// ErrBusy: the database answers, but another change held it for too long. It is always joined
	// with ErrUnavailable.
	ErrBusy = errors.New("another change is being written")
)

// ReplicaError means that the rules database of this node is a read replica, which refuses changes. It is an
// ErrUnavailable, and lasts until the replica is promoted.
type ReplicaError struct {
	// Primary is the URL at which changes are made, or empty.
	Primary string
}

// Error implements error.
func (e *ReplicaError) Error() string {
	if e.Primary == "" {
		return "the rules database is a read replica: make changes in the region of the primary"
	}
	return "the rules database is a read replica: make changes at " + e.Primary
}

// Unwrap returns ErrUnavailable.
func (e *ReplicaError) Unwrap() error { return ErrUnavailable }

// TakenError says that another object already uses a value, other than its own name, that must be unique: the domain of
// a profile, the descriptor of an active rule, or the name of a token that is made together with a profile.
type TakenError struct{ field.Problem }

func (e *TakenError) Error() string { return e.Field + " " + e.Message }
