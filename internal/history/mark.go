package history

import (
	"context"
	"time"
)

// Kinds of marks.
const (
	// MarkChange is a change of a rule.
	MarkChange = "change"
	// MarkFailMode is a change of a rule's fail mode.
	MarkFailMode = "fail_mode"
	// MarkBreaker is a circuit breaker that opened or closed.
	MarkBreaker = "breaker"
	// MarkNode is a node that started or stopped.
	MarkNode = "node"
)

// Mark is an event at a moment, for charts. The begin of an incident is a mark with a length.
type Mark struct {
	At   time.Time
	Kind string
	// Text describes the event, as in "version 7: limit 100 to 50" or "breaker of redis-1 opened: connection refused".
	Text string
	// Rule, RuleID and Version belong to a change of a rule. Who is the person that made it, Why the reason if one was
	// given.
	Rule            string
	RuleID, Version int64
	Who, Why        string
	// Node is the address of the node.
	Node string
	// Incident: At is when an incident began. Until is when it ended, the zero time while it lasts. If the end is
	// unknown, Until is when the nodes last reported the incident.
	Incident bool
	Until    time.Time
}

// Overlaps reports whether a mark is in the time from from to to, to excluded, or is an incident that had not ended at
// from.
func (m *Mark) Overlaps(from, to time.Time) bool {
	return m.At.Before(to) && (!m.At.Before(from) || m.Incident && (m.Until.IsZero() || m.Until.After(from)))
}

// MarkSource finds the marks that overlap a time, oldest first, at most MaxMarks: the newest, and incidents that began
// before it. rule is a name, "" for every rule. Errors wrap rules.ErrUnavailable; the marks that are known come with
// it.
type MarkSource interface {
	Marks(ctx context.Context, rule string, from, to time.Time) ([]Mark, error)
}

// MaxMarks is the largest number of marks of an answer.
const MaxMarks = 200
