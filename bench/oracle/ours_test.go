//go:build !race

package oracle

import (
	"fmt"
	"strings"
	"time"

	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/envoyfile"
	"sluice/rules/match"
)

// askOurs imports the files and returns what Sluice applies to each descriptor.
func askOurs(fs []*file, ds []descriptor) ([]verdict, error) {
	var sources []envoyfile.Source
	for i, f := range fs {
		sources = append(sources, envoyfile.Source{Name: fmt.Sprintf("%d.yaml", i), Data: []byte(f.yaml())})
	}
	in, err := envoyfile.Parse(sources, envoyfile.Options{})
	if err != nil {
		return nil, err
	}
	plan, err := in.Plan(nil, false)
	if err != nil {
		return nil, err
	}
	nodeOf := map[string]*node{} // that became a rule, by its descriptor
	each(fs, func(f *file, path []*node) { nodeOf[identity(f.Domain, elements(path))] = path[len(path)-1] })
	named := make(map[string]*node, len(plan.Create))
	for i := range plan.Create {
		r := &plan.Create[i]
		r.ID = int64(i + 1)
		if named[r.Name] = nodeOf[identity(r.Descriptor.Domain, r.Descriptor.Entries)]; named[r.Name] == nil {
			return nil, fmt.Errorf("the rule %s is of no node: %+v", r.Name, r.Descriptor)
		}
	}
	set, err := match.Compile(plan.Create, 1, match.Options{})
	if err != nil {
		return nil, err
	}
	vs := make([]verdict, len(ds))
	now := time.UnixMilli(1_800_000_000_000)
	for i, d := range ds {
		m, ok := set.MatchEntries(d.domain, sentEntries(d), now)
		// A leaf without a limit is a rule without one, so that no pattern beside it applies in its place.
		if !ok || named[m.Rule.Rule.Name].Limit == nil && m.Rule.Rule.Unlimited {
			vs[i] = nothing
			continue
		}
		r := &m.Rule.Rule
		vs[i].applied = applied{node: named[r.Name].number, unlimited: r.Unlimited, shadow: r.Mode == rules.ModeShadow,
			quota: r.Quota}
		var replaced []int
		for _, name := range r.Replaces {
			replaced = append(replaced, named[name].number)
		}
		vs[i].replaces = numbers(replaced)
		if !r.Unlimited {
			vs[i].count, vs[i].window, vs[i].bucket = m.Limit.Count, m.Limit.Window, string(m.Key)
		}
	}
	return vs, nil
}

func sentEntries(d descriptor) []entries.Entry {
	out := make([]entries.Entry, len(d.pairs))
	for i, p := range d.pairs {
		out[i] = entries.Entry{Key: p.key, Value: p.value}
	}
	return out
}

// elements returns what a rule of the last node of a path says about the entries.
func elements(path []*node) []entries.Element {
	var out []entries.Element
	for _, n := range path {
		e := entries.Element{Key: n.Key, Value: n.Value}
		if strings.Contains(n.Value, "*") {
			e.Value, e.Pattern = "", n.Value
		}
		out = append(out, e)
	}
	return out
}

// identity returns a text that only rules for the same descriptors have.
func identity(domain string, es []entries.Element) string {
	id := fmt.Sprintf("%q", domain)
	for _, e := range es {
		id += fmt.Sprintf(" %q %q %q", e.Key, e.Value, e.Pattern)
	}
	return id
}
