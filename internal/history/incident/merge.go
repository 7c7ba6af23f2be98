package incident

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	// maxCauses is the largest number of causes that an incident names, maxServers the largest number of servers or
	// regions.
	maxCauses, maxServers = 3, 1000
	listed                = ", "
)

// tally counts decisions by rule, at most MaxRules and OtherRules.
type tally map[string]*Rule

func (t tally) add(c Rule) {
	if t[c.Rule] == nil && len(t) >= MaxRules {
		c.Rule = OtherRules
	}
	if t[c.Rule] == nil {
		t[c.Rule] = &Rule{Rule: c.Rule}
	}
	t[c.Rule].Add(c)
}

// list returns the counts, the most decided first.
func (t tally) list() []Rule {
	var out []Rule
	for _, c := range t {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(b.Decided(), a.Decided()), cmp.Compare(a.Rule, b.Rule))
	})
	return out
}

// include adds the items of a list to another one that lack there.
func include(list, more string, most int) string {
	all := items(list)
	for _, item := range items(more) {
		if len(all) < most && !slices.Contains(all, item) {
			all = append(all, item)
		}
	}
	return strings.Join(all, listed)
}

func items(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, listed)
}

// concerns adds servers or regions.
func (i *Incident) concerns(servers string) {
	all := items(include(i.Server, servers, maxServers))
	slices.Sort(all)
	i.Server = strings.Join(all, listed)
}

// plus is an incident with all that is counted in another one.
func (i Incident) plus(o *Incident) Incident {
	i.Opened += o.Opened
	i.Merged += o.Merged
	i.Total.Add(o.Total)
	i.Cause = include(i.Cause, o.Cause, maxCauses)
	i.concerns(o.Server)
	rules := tally{}
	for _, c := range slices.Concat(i.Rules, o.Rules) {
		rules.add(c)
	}
	i.Rules = rules.list()
	return i
}

// outage is an incident over nodes: incidents of one key that overlap or follow each other soon.
type outage struct {
	Incident
	until map[string]time.Time // when the last incident of each process ended, the zero time while it lasts
}

// overNodes merges the incidents of several nodes in one outage. Each process has one outage at a time. So two
// incidents of a process belong to one outage only if the outage lasted on another node between them.
func overNodes(all []Incident) []Incident {
	byKey := map[string][]*outage{}
	slices.SortFunc(all, func(a, b Incident) int {
		return cmp.Or(a.Begin.Compare(b.Begin), strings.Compare(a.ID, b.ID))
	})
	for n := range all {
		i := &all[n]
		of := byKey[i.Key]
		if last := len(of) - 1; last >= 0 && of[last].lastsAt(i) {
			of[last].join(i)
			continue
		}
		o := &outage{Incident: *i, until: map[string]time.Time{i.NodeID: i.ended()}}
		o.Nodes = []string{i.Node}
		byKey[i.Key] = append(of, o)
	}
	var out []Incident
	for _, of := range byKey {
		for _, o := range of {
			out = append(out, o.Incident)
		}
	}
	return out
}

// ended is when an incident ended or, if it is lost, was last reported.
func (i *Incident) ended() time.Time {
	if i.Lost {
		return i.Updated
	}
	return i.End
}

// lastsAt reports whether another node had the outage when an incident began, or soon before.
func (o *outage) lastsAt(i *Incident) bool {
	for node, end := range o.until {
		if node != i.NodeID && (end.IsZero() || i.Begin.Sub(end) < resumeWithin) {
			return true
		}
	}
	return false
}

// join adds the incident of a node. The outage lasts as long as any node has it. Its end is known if one node reports
// it.
func (o *outage) join(i *Incident) {
	merged := o.plus(i)
	if i.Kind == Breaker {
		merged.Kind = Breaker
	}
	if i.Updated.After(o.Updated) {
		merged.Updated = i.Updated
	}
	switch {
	case o.Running():
	case i.Running() || o.Lost && !i.Lost:
		merged.End, merged.Lost, merged.Stopped = i.End, i.Lost, i.Stopped
	case !i.Lost:
		if i.End.After(o.End) {
			merged.End = i.End
		}
		merged.Stopped = o.Stopped && i.Stopped
	}
	if !slices.Contains(o.Nodes, i.Node) {
		merged.Nodes = append(merged.Nodes, i.Node)
	}
	o.Incident, o.until[i.NodeID] = merged, i.ended()
}
