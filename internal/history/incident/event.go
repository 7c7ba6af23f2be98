package incident

import (
	"context"
	"time"
)

// Kinds of events.
const (
	// EventIncident is an Incident, of which Data is the JSON.
	EventIncident = "incident"
	// EventNodeStarted and EventNodeStopped are of a node, without Data.
	EventNodeStarted = "node_started"
	EventNodeStopped = "node_stopped"
)

// Event is what happened on a node, as it is stored.
type Event struct {
	// ID is unique. An event that is stored again under its ID is replaced.
	ID   string
	Kind string
	// At is when it began, End when it ended: At itself for a moment, the zero time while it lasts.
	At, End time.Time
	// Node is the address of the node.
	Node string
	// Data is up to 200 kB of JSON, or nil. The store does not look into it.
	Data []byte
}

// Store keeps events in the rule database. Errors wrap rules.ErrUnavailable. It is safe for concurrent use.
type Store interface {
	// AddEvents stores events, in one transaction, each in place of one with the same ID.
	AddEvents(ctx context.Context, events []Event) error
	// Events returns the newest events of some kinds that began before to and had not ended by from, newest first, at most
	// limit.
	Events(ctx context.Context, kinds []string, from, to time.Time, limit int) ([]Event, error)
	// CleanEvents deletes up to limit events that began before an instant, and returns how many.
	CleanEvents(ctx context.Context, before time.Time, limit int) (int64, error)
}
