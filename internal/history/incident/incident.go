// Package incident keeps the times in which nodes could not work normally, and counts the decisions of fail modes in
// them.
package incident

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"sluice/rules/field"
)

// Codes of conditions with which decisions are counted.
const (
	CodeRedis   = "redis_unavailable"
	CodeStarved = "node_starved"
)

// Kinds of incidents.
const (
	// Breaker: the circuit breaker of at least one Redis server was open.
	Breaker = "breaker"
	// Timeouts: fail modes decided requests while every circuit breaker was closed.
	Timeouts = "timeouts"
	// Database: the rule database was unavailable. Checks were decided as usual.
	Database = "database"
	// Regions: other regions were cut off from the region of the node. The setting cut_off decided rules that span
	// regions. These decisions are not counted here.
	Regions = "regions"
	// Starved: the node lacked CPU, so that checks were late. It says nothing about Redis.
	Starved = "node_starved"
)

const (
	// Kept is how long incidents are kept.
	Kept = 30 * 24 * time.Hour
	// Max is the largest number of incidents of an answer: the newest.
	Max = 500
	// MaxRules is the largest number of rules of an incident; the rest are counted as OtherRules.
	MaxRules = 1000
	// OtherRules is the name under which the rules beyond a bound are counted.
	OtherRules = "(other)"
	// LostAfter is how long after its last update a running incident counts as lost: its node reports no more.
	LostAfter = time.Minute
)

// Incident is a time in which nodes could not use Redis or the rule database, received nothing from another region, or
// a node lacked CPU. Breakers that are open at the same time belong to one incident, and so do breakers that open again
// within 10 s. The same holds for regions. A Source merges the incidents of several nodes in one outage.
type Incident struct {
	// ID is unique and does not change while the incident is updated.
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Key is the same for all incidents of one outage, on all nodes: the code of the condition and, after a slash, the
	// region or the node that has it.
	Key string `json:"key"`
	// Begin is when a breaker opened, a fail mode decided the first request, the first region was cut off, or too many
	// checks had been late. End is when the last breaker closed, a fail mode decided the last request, all regions were
	// connected, or few checks were late again; it is zero while the incident lasts, and for a Lost incident.
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end,omitzero"`
	// Updated is when the node last reported the incident.
	Updated time.Time `json:"updated"`
	// Lost: the node stopped reporting before the end, so that the end is unknown and the figures count until Updated.
	// Only a Source sets it.
	Lost bool `json:"-"`
	// Stopped: the incident ended because the node stopped.
	Stopped bool `json:"stopped,omitempty"`
	// Node is the address of the node that had the incident first, NodeID names its process. Nodes are the addresses of
	// all nodes that had it; only a Source sets them.
	Node   string   `json:"node"`
	NodeID string   `json:"node_id"`
	Nodes  []string `json:"-"`
	// Server lists the Redis servers with an open breaker, or the regions that were cut off, separated by ", ". It is ""
	// for other kinds.
	Server string `json:"server,omitempty"`
	// Cause is the reason for people, such as "connection refused". It contains no key and no password.
	Cause string `json:"cause"`
	// Opened is how often a breaker opened.
	Opened int64 `json:"opened,omitempty"`
	// Total counts requests as a whole, each once under the strongest fail mode: closed, local, open. Its Rule is "".
	Total Rule `json:"total"`
	// Rules counts by rule, the most decided first.
	Rules []Rule `json:"rules,omitempty"`
	// Merged is the number of other incidents that are included in this one, because the rule database was unavailable
	// for so long that the node could not keep them separate.
	Merged int64 `json:"merged,omitempty"`
}

// Rule counts the requests that fail modes decided.
type Rule struct {
	Rule string `json:"rule,omitempty"`
	// Open, Local and Closed are decisions by each fail mode.
	Open   int64 `json:"open"`
	Local  int64 `json:"local"`
	Closed int64 `json:"closed"`
	// Denied is the number of denials: all of Closed, and the part of Local over the node's share.
	Denied int64 `json:"denied"`
}

// Decided is the number of decisions.
func (r *Rule) Decided() int64 { return r.Open + r.Local + r.Closed }

// Add adds the counts of o.
func (r *Rule) Add(o Rule) {
	r.Open += o.Open
	r.Local += o.Local
	r.Closed += o.Closed
	r.Denied += o.Denied
}

// Running reports whether the incident lasts.
func (i *Incident) Running() bool { return i.End.IsZero() && !i.Lost }

// Rule returns the counts of a rule, false if fail modes decided nothing by it.
func (i *Incident) Rule(name string) (Rule, bool) {
	for _, r := range i.Rules {
		if r.Rule == name {
			return r, true
		}
	}
	return Rule{Rule: name}, false
}

// Query selects incidents.
type Query struct {
	// From and To bound the time; an incident counts that overlaps it. To is excluded. Zero means Kept ago, and
	// now.
	From, To time.Time
	// Node is the address of a node, Rule the name of a rule by which fail modes decided requests; "" selects all.
	Node, Rule string
}

// Validate returns a *field.ValidationError that names what is wrong with a query.
func (q *Query) Validate() error {
	var bad []field.Problem
	add := func(member, message string) { bad = append(bad, field.Problem{Field: member, Message: message}) }
	if !q.From.IsZero() && (q.From.Unix() < 0 || q.From.Year() > 9999) {
		add("from", "must be a time since 1970")
	}
	switch {
	case !q.To.IsZero() && (q.To.Unix() < 0 || q.To.Year() > 9999):
		add("to", "must be a time up to the year 9999")
	case !q.To.IsZero() && !q.From.Before(q.To):
		add("to", "must be after from")
	}
	if bad != nil {
		return &field.ValidationError{Fields: bad}
	}
	return nil
}

// Match reports whether a query selects an incident.
func (q *Query) Match(i *Incident) bool {
	end := i.ended()
	if !q.To.IsZero() && !i.Begin.Before(q.To) || !end.IsZero() && end.Before(q.From) ||
		q.Node != "" && i.Node != q.Node && !slices.Contains(i.Nodes, q.Node) {
		return false
	}
	if q.Rule == "" {
		return true
	}
	_, counted := i.Rule(q.Rule)
	return counted
}

// Source finds incidents: running ones first, then the newest first, at most Max. Errors are a
// *field.ValidationError or wrap rules.ErrUnavailable; with the latter come the incidents that this node knows.
type Source interface {
	Incidents(ctx context.Context, q Query) ([]Incident, error)
	// Running returns the running incidents, at most a second old. Callers must not change them.
	Running(ctx context.Context) ([]Incident, error)
}

// Sort puts running incidents first, then the newest, and keeps Max.
func Sort(all []Incident) []Incident {
	slices.SortFunc(all, func(a, b Incident) int {
		if a.Running() != b.Running() {
			if a.Running() {
				return -1
			}
			return 1
		}
		return cmp.Or(b.Begin.Compare(a.Begin), strings.Compare(a.Node, b.Node), strings.Compare(a.ID, b.ID))
	})
	return all[:min(len(all), Max)]
}

// Unknown is a Source that knows nothing.
type Unknown struct{}

// Incidents implements Source.
func (Unknown) Incidents(_ context.Context, q Query) ([]Incident, error) {
	return nil, q.Validate()
}
