package view

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/internal/fleet"
	"sluice/rules"
)

// RulePage is the page of one rule.
type RulePage struct {
	Rule rules.Rule
	// Set is in force on this node.
	Set   *rules.Set
	Query Query
	// Minute is the last whole minute, Live the figures it is from.
	Minute fleet.Counts
	Live   fleet.Live
	// Trial is nil if nothing of the rule is on trial.
	Trial   *Trial
	Traffic Traffic
	Denied  []fleet.KeyCount
	// NoFigures: some could not be read.
	NoFigures bool
	// Changed: the page shows an earlier version of the rule, or one that is gone.
	Changed bool
	// Watching: this node looks for hot keys.
	Watching      bool
	Hot           []HotLine
	Overrides     []rules.Override
	MoreOverrides bool
	History       []rules.Revision
	// Older: History does not begin with the newest.
	Older bool
	// StoredAway: overrides and history could not be read.
	StoredAway bool
}

// settings are the fields of the rule that are set, beyond those the page shows
// anyway.
func (m *RulePage) settings() []rules.Change {
	var out []rules.Change
	for _, c := range rules.Diff(nil, &m.Rule) {
		switch c.Field {
		case "name", "description", "is_active":
			continue
		}
		if c.New != nil {
			out = append(out, c)
		}
	}
	return out
}

// stream is where the page asks for what moves.
func (m *RulePage) stream() string {
	return "/console/events?" + url.Values{
		"rule": {strconv.FormatInt(m.Rule.ID, 10)}, "version": {strconv.FormatInt(m.Rule.Version, 10)}, "span": {m.Traffic.Span},
	}.Encode()
}

// busy reports whether the list of denied keys is likely to grow while the page is
// open.
func (m *RulePage) busy() bool { return len(m.Denied) > 0 || m.Minute.Total() > 0 }

// next is the version to go on below in the history, 0 for none.
func (m *RulePage) next() int64 {
	if n := len(m.History); n > 0 && m.History[n-1].Version > 1 {
		return m.History[n-1].Version
	}
	return 0
}

// HotLine is a row of a table of hot keys.
type HotLine struct {
	Key string
	// Rule is empty if its rule is not in force. Mode is what it allows for hot
	// keys, Link leads to the page of the bucket.
	Rule   string
	RuleID int64
	Mode   string
	Link   string
	// Rate is in checks a second on Nodes together.
	Rate  int64
	Nodes []fleet.HotNode
	Hot   bool
	State string
	Since time.Time
}

// RuleConflict is an act on a rule that somebody has changed meanwhile.
type RuleConflict struct {
	Rule rules.Rule
	By   string
	At   time.Time
	// Changes are what happened since.
	Changes []rules.Change
	// Action and Form are what was asked for.
	Action string
	Form   url.Values
}

// Rollback is an earlier version to go back to.
type Rollback struct {
	Rule    rules.Rule
	To      rules.Revision
	Changes []rules.Change
}

// PoolState is what a pool holds at a moment.
type PoolState struct {
	// Used is in units, nil if the counters do not say.
	Used     *int64
	Capacity int64
	// Load is the last report, nil for none that is fresh; LoadFor is how much
	// longer it stands.
	Load    *float64
	LoadFor time.Duration
}

// actionWords says what was done to a rule.
func actionWords(action string) string {
	switch action {
	case "create":
		return "created"
	case "update":
		return "edited"
	case "delete":
		return "deleted"
	case "rollback":
		return "rolled back"
	case "promote":
		return "promoted"
	case "import":
		return "imported"
	}
	return action
}

// jsonText is a value of a field that has parts.
func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}

// Overview is the home page.
type Overview struct {
	// Node is this node, Live the whole fleet.
	Node fleet.Status
	Live fleet.Live
	// Rates are allowed, denied and degraded.
	Rates   map[string]Rate
	Traffic Traffic
	// Denied and Busy are the rules that deny most, and decide most.
	Denied, Busy []RuleRate
	// Latest are the last few requests that were denied, LatestIDs their rules in
	// force by name; LatestAway: they cannot be read.
	Latest     []fleet.Denial
	LatestIDs  map[string]int64
	LatestAway bool
	// Newest is the newest set version of any node, HotKeys how many keys are hot
	// on any, of which Hot are named.
	Newest                          int64
	HotKeys                         int
	Hot                             []HotLine
	Active, Shadow                  int
	FailOpen, FailClosed, FailLocal int
	// Stored counts the rules that are off too.
	Stored             int64
	Embedded, Degraded bool
	Recent             []RuleLine
}

// mixed reports whether nodes that post run different versions of the rules.
func (m *Overview) mixed() bool {
	for i := range m.Live.Nodes {
		if n := &m.Live.Nodes[i]; !n.Silent && !n.Unknown && n.SetVersion != m.Newest {
			return true
		}
	}
	return false
}

// Rate is how often something happens, and a line of how that went.
type Rate struct {
	PerSecond float64
	Line      []float64
}

// RuleRate is a rule in the last minute, and a line of the last ten.
type RuleRate struct {
	Name string
	// ID is 0 if no rule in force has the name.
	ID     int64
	Minute fleet.Counts
	Line   []float64
}

// openBreaker is a breaker that is not closed, nil if all are.
func openBreaker(all []fleet.Breaker) *fleet.Breaker {
	for i := range all {
		if all[i].State != "closed" {
			return &all[i]
		}
	}
	return nil
}

func breakerWords(state string) string { return strings.ReplaceAll(state, "_", " ") }
