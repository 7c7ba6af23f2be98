package view

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/fleet"
	"sluice/limiter"
	"sluice/rules"
)

// Denials is the page of recent denials.
type Denials struct {
	Lines []fleet.Denial
	Query Query
	// Older leads to those before the last line, "" if there are none.
	Older string
	// Rules are the names to choose from.
	Rules []string
	// IDs are of the rules in force, by name.
	IDs map[string]int64
	// Now is when the page was made.
	Now time.Time
	// Own: these are of this node alone, because those of all could not be read
	// since Since.
	Own   bool
	Since time.Time
}

// Stream is where more of what the page shows comes from.
func (m *Denials) Stream() string {
	values := maps.Clone(m.Query.values)
	values.Set("of", "denials")
	return "/console/events?" + values.Encode()
}

// RuleLink leads to a rule, or, if it is not in force, to the search for it.
func RuleLink(ids map[string]int64, name string) string {
	if id := ids[name]; id > 0 {
		return rulePath(id)
	}
	return "/console/rules?" + url.Values{"q": {name}}.Encode()
}

// KeyLink leads to the page of a bucket.
func KeyLink(rule, key string) string {
	return "/console/keys?" + url.Values{"rule": {rule}, "key": {key}}.Encode()
}

// denialKey leads to the bucket of a denial.
func denialKey(d *fleet.Denial) string {
	if d.Bucket != "" {
		return KeyLink(d.Rule, d.Bucket)
	}
	return KeyLink(d.Rule, d.Key)
}

// Wait writes how long to wait in ms: "12 s", "never".
func Wait(ms int64) string {
	switch {
	case ms == limiter.Never:
		return "never"
	case ms <= 0:
		return "now"
	case ms < 1000:
		return Count(ms) + " ms"
	case ms < 120_000:
		return short(float64((ms+99)/100)/10) + " s"
	case ms < 7_200_000:
		return Count((ms+59_999)/60_000) + " min"
	}
	return Count((ms+3_599_999)/3_600_000) + " h"
}

// Explanation is what the rules in force say of one request, spending nothing.
type Explanation struct {
	// SetVersion is the version of the rules, Active how many there are.
	SetVersion int64
	Active     int
	// Allowed and Status are what a check would answer now, Degraded the fail mode
	// that would have a say. Soft and Elastic: allowed, but above a limit.
	Allowed       bool
	Status        int
	Degraded      string
	Soft, Elastic bool
	// Strictest names the rule whose figures the answer would show, "" for none,
	// RetryAfter is its wait in ms.
	Strictest  string
	RetryAfter int64
	// Rules are those that apply and the nearest misses.
	Rules []ConsideredRule
}

// ConsideredRule is what one rule has to do with the request.
type ConsideredRule struct {
	rules.Considered
	// Bucket is the rule's bucket, Candidate its candidate's, Pool its pool; nil
	// where there is none or nobody can tell.
	Bucket, Candidate *BucketFigures
	Pool              *PoolShare
}

// BucketFigures is a bucket before and after a request.
type BucketFigures struct {
	Allowed bool
	// Limit, Before and After are units: the limit in force, what remains now, and
	// what would remain afterwards. Burst, of a bucket algorithm, is the most that
	// can remain. Known is false where a fail mode decides without figures.
	Limit, Before, After int64
	Burst                *int64
	Known                bool
	// Reset and RetryAfter are waits in ms, -1 for never.
	Reset, RetryAfter int64
	// Soft and Elastic: allowed above the limit. Degraded: by a fail mode.
	Soft, Elastic bool
	Degraded      string
}

// FiguresOf are the figures of a decision that a store made on a limit.
func FiguresOf(l limiter.Limit, d limiter.Decision) *BucketFigures {
	f := &BucketFigures{
		Allowed: d.Allowed, Before: d.Remaining, After: d.Remaining, Known: true, Reset: d.Reset, RetryAfter: d.RetryAfter,
	}
	limit, burst, bucketed := d.InForce(l.Algorithm)
	if f.Limit = limit; bucketed {
		f.Burst = &burst
	}
	return f
}

// limitWords is the limit in force, and the burst beside it.
func (b *BucketFigures) limitWords() string {
	if b.Burst == nil {
		return Count(b.Limit)
	}
	return Count(b.Limit) + ", burst " + Count(*b.Burst)
}

// leftWords is what remains, and of what.
func (b *BucketFigures) leftWords() string {
	if b.Burst == nil {
		return Count(b.Before) + " of " + Count(b.Limit)
	}
	return Count(b.Before) + " (limit " + b.limitWords() + ")"
}

// PoolShare is what a rule's pool holds.
type PoolShare struct {
	Name, Priority string
	// SharePercent is how much of the pool the priority may find in use.
	SharePercent int64
	// Used, of Capacity, is in units; -1 if nobody knows.
	Used, Capacity int64
	// Load is a fresh report of utilization in percent, -1 for none.
	Load int64
}

// matched are the rules that apply, or that would but for an override or a tier.
func (e *Explanation) matched() (apply, rest []ConsideredRule) {
	for i := range e.Rules {
		if e.Rules[i].Matched || e.Rules[i].Reason == rules.ReasonUnlimited {
			apply = append(apply, e.Rules[i])
		} else {
			rest = append(rest, e.Rules[i])
		}
	}
	return apply, rest
}

// Explain is the page that explains a request.
type Explain struct {
	Form Form
	// Notes are what had to be left out of what was pasted or sampled.
	Notes []string
	// Denial is what the form was filled from, nil for nothing.
	Denial *fleet.Denial
	// Result is nil until there is one.
	Result *Explanation
}

// KeyPage is the page of one bucket.
type KeyPage struct {
	// Lookup is the form that finds a bucket; Rules are the names to choose from.
	Lookup Form
	Rules  []string
	// Bucket is nil until one is found.
	Bucket *rules.Bucket
	// Figures and Candidate are what the counters say, nil if they do not.
	Figures, Candidate *BucketFigures
	// Away: the counters do not answer.
	Away bool
	// Override is what stands for this key, nil for none or where OverrideUnknown;
	// Covered: a wildcard covers the key besides.
	Override *rules.Override
	// OverrideUnknown: an override stands for this key and cannot be read.
	OverrideUnknown bool
	// Recent are denials of the bucket; RecentUnread: they cannot be read; RecentOwn:
	// they are this node's alone since RecentSince.
	Recent                  []fleet.Denial
	RecentUnread, RecentOwn bool
	RecentSince             time.Time
	// Edit is the form of an override.
	Edit Form
	Now  time.Time
}

// Link is the page's own address.
func (p *KeyPage) Link() string { return KeyLink(p.Bucket.Rule.Rule.Name, p.Bucket.Name) }

// shownName is the bucket's name without the length of its hashes.
func (p *KeyPage) shownName() string {
	if p.Bucket.Exception == "" {
		return p.Bucket.Name
	}
	return p.Bucket.Exception
}

// FailModes is the page of what happens while the counters cannot be asked.
type FailModes struct {
	Lines []FailLine
	Query Query
	Pager Pager
	// Counts are rules in force, by mode.
	Open, Closed, Local, Active int
	Nodes                       []fleet.NodeLive
	// Degraded were decided by fail modes in the last three minutes, of Total.
	Degraded, Total int64
	// Stale: the figures could not be read again; ReadAt is when they were.
	// Own: those shown are of this node alone.
	Stale, Own bool
	ReadAt     time.Time
	// Redis: there is a counter store that can fail.
	Redis bool
	// Switched is when a breaker changed last, zero for never.
	Switched time.Time
}

// where limits a figure to this node, if it is of this node alone.
func (m *FailModes) where() string {
	if m.Own {
		return ", on this node"
	}
	return ""
}

// FailLine is one rule on that page.
type FailLine struct {
	Rule *rules.Rule
	By   string
	// Degraded were decided by its fail mode in the last ten minutes.
	Degraded int64
}

// sortedNames are the keys of a map, in order.
func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// requestWords is a denied request in short.
func requestWords(d *fleet.Denial) string {
	words := strings.TrimSpace(d.Method + " " + d.Route)
	if words == "" {
		return "–"
	}
	return words
}

// fromWords says who sent a denied request.
func fromWords(d *fleet.Denial) string {
	var parts []string
	for _, p := range []struct{ name, value, key string }{{"user ", d.User, "user:"}, {"from ", d.IP, "ip:"}, {"tier ", d.Tier, "tier:"}} {
		if p.value != "" && d.Key != p.key+p.value { // the key stands beside it
			parts = append(parts, p.name+p.value)
		}
	}
	for _, name := range sortedNames(d.Attributes) {
		parts = append(parts, name+" "+d.Attributes[name])
	}
	return strings.Join(parts, ", ")
}

func statusWords(status int) string { return strconv.Itoa(status) }

// passesWords says when a denied request passes.
func passesWords(ms int64) string {
	if ms == limiter.Never {
		return "Waiting does not help."
	}
	return "The same request passes " + waitWords(ms) + "."
}

// appliesWords says how many rules apply, of those in force.
func appliesWords(n, active int) string {
	if n == 1 {
		return "1 rule of " + Count(int64(active)) + " in force applies."
	}
	return Plural(int64(n), "rule") + " of " + Count(int64(active)) + " in force apply."
}

// waitWords is Wait within a sentence: "in 12 s", "never".
func waitWords(ms int64) string {
	if ms > 0 {
		return "in " + Wait(ms)
	}
	return Wait(ms)
}
