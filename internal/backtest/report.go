package backtest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/api/decide"
	"sluice/rules/chars"
	"sluice/rules/quantity"
)

// What a report compares the proposed rules with.
const (
	// ComparedLog: the decisions in the log.
	ComparedLog = "log"
	// ComparedRules: today's rules, replayed too.
	ComparedRules = "rules"
)

// Reasons of Left that concern replayed events.
const (
	leftFailMode   = "fail_mode"
	leftOverloaded = "overloaded"
	leftEvicted    = "evicted"
	leftKeys       = "too_many_keys"
)

// Report is the result of a replay. Counts of requests are scaled by the sampling of the log: an event sampled at 1 %
// counts as 100.
type Report struct {
	// Compared is ComparedLog or ComparedRules.
	Compared string `json:"compared"`
	// From and Until are the times of the first and the last event, ms since the epoch.
	From  int64 `json:"from"`
	Until int64 `json:"until"`
	// Events is the number of read events, Replayed the number of events that were decided again. Cut: the log
	// continues after the last event.
	Events   int64     `json:"events"`
	Replayed int64     `json:"replayed"`
	Cut      bool      `json:"cut"`
	Scaled   Scaled    `json:"scaled"`
	Log      LogReport `json:"log"`

	Checks       float64 `json:"checks"`
	DeniedBefore float64 `json:"denied_before"`
	DeniedAfter  float64 `json:"denied_after"`
	NewlyDenied  float64 `json:"newly_denied"`
	NewlyAllowed float64 `json:"newly_allowed"`

	Rules []RuleChange `json:"rules"`
	// Keys are the keys with the most changes, then the keys with the most denials. ChangedKeys is the number of keys
	// with changes. MoreKeys says that there are more.
	Keys        []KeyChange  `json:"keys"`
	ChangedKeys int          `json:"changed_keys"`
	MoreKeys    bool         `json:"more_keys"`
	First       []Difference `json:"first"`
	// Left counts the events that were not replayed, or not exactly.
	Left    []Left   `json:"not_replayed"`
	Traffic Traffic  `json:"traffic"`
	Demand  []Demand `json:"demand"`
}

// Scaled counts the replayed checks that stand for others too, because the log contains a sample of the entities. Rate
// is the lowest sampling percentage of these checks.
type Scaled struct {
	Checks int64   `json:"checks"`
	Rate   float64 `json:"rate"`
	most   float64 // the largest percentage
}

// add counts a check of a log of rate percent.
func (s *Scaled) add(rate float64) {
	if s.Checks++; s.Rate == 0 || rate < s.Rate {
		s.Rate = rate
	}
	s.most = max(s.most, rate)
}

// String says it in a sentence, "" if nothing was scaled.
func (s Scaled) String() string {
	if s.Checks == 0 {
		return ""
	}
	times := func(rate float64) string { return quantity.Decimal(math.Round(100/rate*100) / 100) }
	if s.most > s.Rate {
		return fmt.Sprintf("Of %s checks, the log has those of %s%% to %s%% of the users: each counts as %s to %s.",
			quantity.Amount(s.Checks), quantity.Decimal(s.Rate), quantity.Decimal(s.most),
			times(s.most), times(s.Rate))
	}
	return fmt.Sprintf("Of %s checks, the log has those of %s%% of the users: each counts as %s.",
		quantity.Amount(s.Checks), quantity.Decimal(s.Rate), times(s.Rate))
}

// LogReport describes problems of reading a log.
type LogReport struct {
	Lines    int64     `json:"lines"`
	Corrupt  int64     `json:"corrupt"`
	Late     int64     `json:"late"`
	Problems []Problem `json:"problems"`
}

// RuleChange counts the requests that a rule denies. A request that two rules deny counts for both.
type RuleChange struct {
	Rule         string  `json:"rule"`
	DeniedBefore float64 `json:"denied_before"`
	DeniedAfter  float64 `json:"denied_after"`
	NewlyDenied  float64 `json:"newly_denied"`
	NewlyAllowed float64 `json:"newly_allowed"`
}

func (c *RuleChange) changed() float64 { return c.NewlyAllowed + c.NewlyDenied }

// KeyChange counts the requests that a bucket denies.
type KeyChange struct {
	Rule         string  `json:"rule"`
	Key          string  `json:"key"`
	DeniedBefore float64 `json:"denied_before"`
	DeniedAfter  float64 `json:"denied_after"`
	NewlyDenied  float64 `json:"newly_denied"`
	NewlyAllowed float64 `json:"newly_allowed"`
}

func (c *KeyChange) changed() float64 { return c.NewlyAllowed + c.NewlyDenied }

// Difference is a request that would be answered otherwise.
type Difference struct {
	File   string  `json:"file"`
	Line   int64   `json:"line"`
	TS     int64   `json:"ts"`
	Method string  `json:"method"`
	Route  string  `json:"route"`
	Weight int64   `json:"weight"`
	Before Outcome `json:"before"`
	After  Outcome `json:"after"`
}

// Outcome is an answer to a check.
type Outcome struct {
	Allowed bool `json:"allowed"`
	// Degraded is the fail mode that decided, "" for the store.
	Degraded string `json:"degraded,omitempty"`
	// Overloaded: denied because the store had no turn for the check, so no limit denied it.
	Overloaded bool `json:"overloaded,omitempty"`
	// Strictest is the strictest limit, nil if none applied. Limits are the limits that denied.
	Strictest *OutcomeLimit  `json:"strictest"`
	Limits    []OutcomeLimit `json:"denied_by,omitempty"`
}

// OutcomeLimit is a limit of an answer, with the units as in an event.
type OutcomeLimit struct {
	Rule         string `json:"rule"`
	Key          string `json:"key"`
	Limit        int64  `json:"limit"`
	Used         int64  `json:"used"`
	RetryAfterMS int64  `json:"retry_after_ms"`
}

// String explains the answer in a sentence.
func (o Outcome) String() string {
	word := "denied"
	if o.Allowed {
		word = "allowed"
	}
	if decide.ByFailMode(o.Degraded) {
		return word + " by fail mode " + chars.Shown(o.Degraded)
	}
	if o.Overloaded {
		return word + " because of overload"
	}
	list := o.Limits
	if len(list) == 0 && o.Strictest != nil {
		list = []OutcomeLimit{*o.Strictest}
	}
	if len(list) == 0 {
		return word + ": no limit applied"
	}
	parts := make([]string, len(list))
	for i, l := range list {
		parts[i] = fmt.Sprintf("%s (%s): %s of %s", chars.Shown(l.Rule), chars.Shown(l.Key), quantity.Amount(l.Used),
			quantity.Amount(l.Limit))
		if !o.Allowed && l.RetryAfterMS > 0 {
			parts[i] += ", again after " + wait(l.RetryAfterMS)
		}
	}
	if o.Allowed {
		return word + "; " + parts[0]
	}
	return word + " by " + strings.Join(parts, "; ")
}

// Left is something that was not replayed.
type Left struct {
	Reason string `json:"reason"`
	// Rule is the rule or the pool that was not judged, Facts the facts that it needs.
	Rule   string `json:"rule,omitempty"`
	Facts  string `json:"facts,omitempty"`
	Events int64  `json:"events"`
	// Text says it in a sentence.
	Text string `json:"text"`
}

// NotJudged is how many events there are for which the limit of a rule was not judged.
func (r *Report) NotJudged(rule string) (events int64) {
	for i := range r.Left {
		if l := &r.Left[i]; l.Rule == rule && (l.Reason == partShared || l.Reason == partHashed) {
			events += l.Events
		}
	}
	return events
}

func (l *Left) text() string {
	n := quantity.Amount(l.Events)
	switch l.Reason {
	case leftDescriptors:
		return "events of descriptors, whose facts are not in the log: " + n
	case leftNotDrawn:
		return "denials of entities that the sampling did not draw, so that what was allowed to them is not in the log: " + n
	case leftHidden:
		return "events with values that were hidden without a hash: " + n
	case leftShortened:
		return "events that were too long for the log and lost facts: " + n
	case leftToken:
		return "releases, renewals and settlements whose check is not in this part of the log: " + n
	case leftInvalid:
		return "events that no check can have: " + n
	case partShared:
		return l.Rule + " counts several entities together, and the log has only a part of them, so it was not " +
			"judged; events: " + n
	case partHashed:
		return l.Rule + " compares the value of " + l.Facts + ", of which the log has hashes, so it was not " +
			"judged; events: " + n
	case partAbsent:
		return l.Rule + " needs " + l.Facts + ", which this log leaves out, so it does not apply as it would; events: " + n
	case leftFailMode:
		return "events that a fail mode decided, which the replay decides by the limits: " + n
	case leftOverloaded:
		return "events that were denied because of overload, which the replay decides by the limits: " + n
	case leftEvicted:
		return "buckets that were dropped because there were too many at once: " + n
	case leftKeys:
		return "requests of keys beyond those that can be counted at once: " + n
	}
	return l.Reason + ": " + n
}

// Traffic is all requests over time, in columns of StepMS from From on, ms since the epoch.
type Traffic struct {
	From         int64     `json:"from"`
	StepMS       int64     `json:"step_ms"`
	Checks       []float64 `json:"checks"`
	DeniedBefore []float64 `json:"denied_before"`
	DeniedAfter  []float64 `json:"denied_after"`
}

// Demand compares the demand of the busiest bucket of a rule with its limit: each column contains the most units that
// were demanded of one bucket in one clock-aligned window.
type Demand struct {
	Rule     string  `json:"rule"`
	WindowMS int64   `json:"window_ms"`
	From     int64   `json:"from"`
	StepMS   int64   `json:"step_ms"`
	Demand   []int64 `json:"demand"`
	Limit    []int64 `json:"limit"`
	// Partial: some windows had more keys than are added up.
	Partial bool `json:"partial,omitempty"`
}

// Most is the largest demand.
func (d *Demand) Most() int64 { return slices.Max(append(slices.Clone(d.Demand), 0)) }

// Until is the end of the last column, ms since the epoch.
func (d *Demand) Until() int64 { return d.From + int64(len(d.Demand))*d.StepMS }

// String writes the report for people.
func (r *Report) String() string {
	var b strings.Builder
	day := func(ts int64) string { return time.UnixMilli(ts).UTC().Format("2006-01-02 15:04:05") }
	if r.Events == 0 {
		b.WriteString("The log has no events in this range.\n")
		r.writeDoubts(&b)
		return b.String()
	}
	fmt.Fprintf(&b, "%s to %s UTC: %s events, %s replayed\n", day(r.From), day(r.Until), quantity.Amount(r.Events),
		quantity.Amount(r.Replayed))
	if r.Cut {
		b.WriteString("The log goes on: only its first events were replayed.\n")
	}
	if r.Scaled.Checks > 0 {
		b.WriteString(r.Scaled.String() + "\n")
	}
	before := "by the log"
	if r.Compared == ComparedRules {
		before = "by today's rules"
	}
	fmt.Fprintf(&b, "\n%s checks, denied: %s %s, %s by the proposed rules\n", quantity.About(r.Checks),
		quantity.About(r.DeniedBefore), before,
		quantity.About(r.DeniedAfter))
	fmt.Fprintf(&b, "newly denied: %s, newly allowed: %s\n", quantity.About(r.NewlyDenied), quantity.About(r.NewlyAllowed))
	if len(r.Rules) > 0 {
		fmt.Fprintf(&b, "\n%-40s %14s %14s %14s %14s\n", "RULE", "DENIED BEFORE", "AFTER", "NEWLY DENIED", "NEWLY ALLOWED")
		for _, c := range r.Rules {
			fmt.Fprintf(&b, "%-40s %14s %14s %14s %14s\n", chars.Shown(c.Rule), quantity.About(c.DeniedBefore),
				quantity.About(c.DeniedAfter),
				quantity.About(c.NewlyDenied), quantity.About(c.NewlyAllowed))
		}
	}
	if len(r.Keys) > 0 {
		fmt.Fprintf(&b, "\n%-40s %14s %14s %14s %14s\n", "KEY", "DENIED BEFORE", "AFTER", "NEWLY DENIED", "NEWLY ALLOWED")
		for _, k := range r.Keys {
			fmt.Fprintf(&b, "%-40s %14s %14s %14s %14s  %s\n", chars.Shown(k.Key), quantity.About(k.DeniedBefore),
				quantity.About(k.DeniedAfter),
				quantity.About(k.NewlyDenied), quantity.About(k.NewlyAllowed), chars.Shown(k.Rule))
		}
		fmt.Fprintf(&b, "keys with changes: %s", quantity.Amount(int64(r.ChangedKeys)))
		if r.MoreKeys {
			b.WriteString(" and more")
		}
		b.WriteString("\n")
	}
	for i, d := range r.First {
		if i == 0 {
			b.WriteString("\nFirst differences\n")
		}
		fmt.Fprintf(&b, "%s %s %s (%s, line %d)\n  before: %s\n  after:  %s\n", day(d.TS), chars.Shown(d.Method),
			chars.Shown(d.Route), d.File, d.Line, d.Before, d.After)
	}
	r.writeDoubts(&b)
	return b.String()
}

// writeDoubts writes what could not be read or replayed.
func (r *Report) writeDoubts(b *strings.Builder) {
	for i, l := range r.Left {
		if i == 0 {
			b.WriteString("\nNot replayed, or not as it was\n")
		}
		b.WriteString("  " + l.Text + "\n")
	}
	if r.Log.Late > 0 {
		fmt.Fprintf(b, "\nEvents that came too late to be sorted, replayed at the time of the one before: %s\n",
			quantity.Amount(r.Log.Late))
	}
	for i, p := range r.Log.Problems {
		if i == 0 {
			fmt.Fprintf(b, "\nProblems of the log (lines that are no events: %s)\n", quantity.Amount(r.Log.Corrupt))
		}
		b.WriteString("  " + p.String() + "\n")
	}
}

// wait writes a time in ms for people: to a tenth of a second below a minute, else to a second.
func wait(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Second:
		return d.String()
	case d < time.Minute:
		return d.Round(time.Second / 10).String()
	}
	return d.Round(time.Second).String()
}

func order[T cmp.Ordered](a, b T) int { return cmp.Compare(a, b) }
