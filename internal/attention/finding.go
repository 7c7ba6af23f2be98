package attention

import (
	"cmp"
	"slices"
	"time"

	"sluice/internal/history"
	"sluice/internal/history/incident"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/scope"
)

const (
	// Most is the largest number of findings.
	Most = 5
	// floodShare is the share of the denials of a rule, in percent, from which one key makes most of them, and
	// enoughDenied the fewest denials of the rule in the last minute.
	floodShare, enoughDenied = 50, 30
)

// Finding is one of three: exactly one of Key, Rise and Outage is not nil.
type Finding struct {
	// Denied are the requests denied in the last minute, by which findings are ordered.
	Denied int64
	// Rule is the rule in force, nil for an outage.
	Rule *rules.Rule
	// Key made most denials of the rule.
	Key *history.KeyDenials
	// Rise is the edit since which the rule denies more.
	Rise   *Rise
	Outage *Outage
}

// Outage is a time in which Redis is unreachable, so that fail modes decide.
type Outage struct {
	Since time.Time
	// Open, Closed and Local are the rules that let everything pass, that refuse everything, and of which each node
	// enforces its share.
	Open, Closed, Local int
	// Down of Servers Redis servers are unreachable; both are 0 if that is not known. With fewer than all, only their
	// keys are decided by fail modes.
	Down, Servers int
	// On of Nodes nodes have the outage; both are 0 if that is not known.
	On, Nodes int
	// Denied are the requests that fail modes denied in the last minute.
	Denied int64
}

// Facts are what is known of the last minute.
type Facts struct {
	Rules []RuleFacts
	// Outage is nil if there is none.
	Outage *Outage
}

// RuleFacts are the facts of a rule in force that denied requests in the last minute.
type RuleFacts struct {
	Rule   *rules.Rule
	Minute history.Figures
	// Keys are its denied keys, the most denied first; nil if they are not known.
	Keys []history.KeyDenials
	// Edits are its edits of the last day, newest first; nil if they are not known.
	Edits []Edited
}

// Find returns what the facts say, at most Most findings, the most denied first. An outage is always among them. It is
// pure.
func Find(f *Facts) []Finding {
	var out []Finding
	if f.Outage != nil {
		out = append(out, Finding{Denied: f.Outage.Denied, Outage: f.Outage})
	}
	for i := range f.Rules {
		r := &f.Rules[i]
		if rise := RiseOf(r.Edits); rise != nil {
			out = append(out, Finding{Denied: r.Minute.Denied, Rule: r.Rule, Rise: rise})
		}
		if key := r.flood(); key != nil {
			out = append(out, Finding{Denied: r.Minute.Denied, Rule: r.Rule, Key: key})
		}
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(b.Denied, a.Denied) })
	if len(out) > Most {
		if i := slices.IndexFunc(out, func(f Finding) bool { return f.Outage != nil }); i >= Most {
			out[Most-1] = out[i]
		}
		out = out[:Most]
	}
	return out
}

// flood is the key that makes most denials of a rule, nil if none does or if that is not sure.
func (r *RuleFacts) flood() *history.KeyDenials {
	denied := r.Minute.Denied
	if len(r.Keys) == 0 || r.Rule.Scope == scope.Global || denied < enoughDenied || 2*r.Minute.DegradedDenied > denied {
		return nil
	}
	k := &r.Keys[0]
	if (k.Minute-k.Error)*100 < floodShare*denied {
		return nil
	}
	return k
}

// outageOf is what running incidents say about Redis, nil if there is no outage. set are the rules in force.
func outageOf(running []incident.Incident, set *match.Set, live *history.Live) *Outage {
	var out *Outage
	nodes, down := map[string]bool{}, map[string]bool{}
	for i := range running {
		in := &running[i]
		if in.Kind != incident.Breaker {
			continue
		}
		if out == nil {
			out = &Outage{Since: in.Begin}
		}
		if in.Begin.Before(out.Since) {
			out.Since = in.Begin
		}
		for _, n := range append([]string{in.Node}, in.Nodes...) {
			nodes[n] = true
		}
	}
	if out == nil {
		return nil
	}
	servers := map[string]bool{}
	for i := range live.Nodes {
		n := &live.Nodes[i]
		if n.Silent || n.Unknown {
			continue
		}
		out.Nodes++
		if nodes[n.Address] {
			out.On++
		}
		for _, b := range n.Breakers {
			servers[b.Server] = true
			if b.State != "closed" {
				down[b.Server] = true
			}
		}
	}
	out.Servers, out.Down = len(servers), len(down)
	for i := range set.Len() {
		r := &set.At(i).Rule
		if r.Mode == rules.ModeShadow || r.Unlimited {
			continue
		}
		switch r.FailMode {
		case rules.FailClosed:
			out.Closed++
		case rules.FailLocal:
			out.Local++
		default:
			out.Open++
		}
	}
	for i := range live.Rules {
		out.Denied += live.Rules[i].Minute.DegradedDenied
	}
	return out
}
