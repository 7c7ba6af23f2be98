package match

import (
	"slices"
	"strings"

	"sluice/rules/route"
	"sluice/rules/textmap"
)

// index finds the rules whose route, method and host match, in time that depends on their number and on
// the depth of the path and of the host, not on the number of rules. Rules for descriptors of Envoy are not in it. It
// is immutable once its set is built; change edits a copy that shares unchanged parts.
type index struct {
	everywhere *leaf               // rules without a route
	exact      *textmap.Map[*leaf] // plain paths, whole
	trie       *node               // patterns, by segment; nil when there are none
}

// leaf holds the rules of one route, by host, method and ordered by id. A nil leaf is empty.
type leaf struct {
	any      []*Compiled
	byMethod []methodRules       // in order of method
	byHost   *textmap.Map[*leaf] // rules with a host, by Compiled.host; their leaves have none below
}

type methodRules struct {
	method string
	rules  []*Compiled
}

// node is a segment that patterns with the same beginning share.
type node struct {
	static *textmap.Map[*node]
	param  *node
	end    *leaf // patterns that end here
	tail   *leaf // patterns that end here in /*
}

// indexEdit changes the index x. Unless inPlace is set it copies what it changes, because other
// sets share it.
type indexEdit struct {
	x       *index
	inPlace bool
}

// build creates the index of all rules.
func (x *index) build(rules *ordered) {
	*x = index{}
	e := indexEdit{x, true}
	for c := range rules.all() {
		if c.Rule.Descriptor == nil {
			e.change(c, func(l *leaf) *leaf { return l.withRule(c, true) })
		}
	}
}

// change returns a copy of the index without the rules drop and with the rules put.
func (x *index) change(drop, put []*Compiled) index {
	out := *x
	e := indexEdit{&out, false}
	for _, c := range drop {
		if c.Rule.Descriptor == nil {
			e.change(c, func(l *leaf) *leaf { return l.withoutRule(c) })
		}
	}
	for _, c := range put {
		if c.Rule.Descriptor == nil {
			e.change(c, func(l *leaf) *leaf { return l.withRule(c, false) })
		}
	}
	return out
}

// change replaces the leaf of a rule's route by the result of edit.
func (e *indexEdit) change(c *Compiled, edit func(*leaf) *leaf) {
	x := e.x
	switch {
	case c.route == nil:
		x.everywhere = edit(x.everywhere)
	case c.route.Exact():
		x.exact = tableWith(x.exact, c.path, edit(x.exact.Get(c.path)), e.inPlace)
	default:
		x.trie = e.below(x.trie, c.route.Segments, c.route.Tail, edit)
	}
}

// below changes the leaf of a pattern whose remaining segments are below n. It returns the node
// that replaces n, nil if it is empty.
func (e *indexEdit) below(n *node, segments []string, tail bool, edit func(*leaf) *leaf) *node {
	switch {
	case n == nil:
		n = &node{}
	case !e.inPlace:
		same := *n
		n = &same
	}
	switch {
	case len(segments) == 0 && tail:
		n.tail = edit(n.tail)
	case len(segments) == 0:
		n.end = edit(n.end)
	case segments[0] == "":
		n.param = e.below(n.param, segments[1:], tail, edit)
	default:
		was := n.static.Get(segments[0])
		if is := e.below(was, segments[1:], tail, edit); is != was {
			n.static = tableWith(n.static, segments[0], is, e.inPlace)
		}
	}
	if *n == (node{}) {
		return nil
	}
	return n
}

// tableWith returns the map with a value for a key, or without the key if the value is nil.
func tableWith[V any](t *textmap.Map[*V], key string, v *V, inPlace bool) *textmap.Map[*V] {
	if v == nil {
		return t.Remove(key)
	}
	return t.Put(key, v, inPlace)
}

// withRule returns the leaf of a route plus a rule that is not in it.
func (l *leaf) withRule(c *Compiled, inPlace bool) *leaf {
	if c.host == "" {
		return l.with(c, inPlace)
	}
	var same leaf
	if l != nil {
		same = *l
	}
	same.byHost = tableWith(same.byHost, c.host, same.byHost.Get(c.host).with(c, inPlace), inPlace)
	return &same
}

// withoutRule returns the leaf of a route minus a rule, nil if that is empty.
func (l *leaf) withoutRule(c *Compiled) *leaf {
	if c.host == "" {
		return l.without(c)
	}
	same := *l
	same.byHost = tableWith(same.byHost, c.host, same.byHost.Get(c.host).without(c), false)
	return same.orNil()
}

// orNil returns the leaf, nil if it is empty.
func (l *leaf) orNil() *leaf {
	if len(l.any) == 0 && len(l.byMethod) == 0 && l.byHost == nil {
		return nil
	}
	return l
}

// with returns the leaf plus a rule that is not in it, whatever the rule's host is.
func (l *leaf) with(c *Compiled, inPlace bool) *leaf {
	switch {
	case l == nil:
		l = &leaf{}
	case !inPlace:
		l = l.clone(c.Rule.Method)
	}
	list := l.listOf(c.Rule.Method)
	at := len(*list)
	if at > 0 && compareRules((*list)[at-1], c) > 0 {
		at, _ = slices.BinarySearchFunc(*list, c, compareRules)
	}
	*list = slices.Insert(*list, at, c)
	return l
}

// without returns the leaf minus a rule, whatever the rule's host is, nil if that is empty.
func (l *leaf) without(c *Compiled) *leaf {
	l = l.clone(c.Rule.Method)
	list := l.listOf(c.Rule.Method)
	*list = slices.DeleteFunc(*list, func(other *Compiled) bool { return other == c })
	l.byMethod = slices.DeleteFunc(l.byMethod, func(m methodRules) bool { return len(m.rules) == 0 })
	return l.orNil()
}

// clone returns a copy in which the rules of one method, or of none for nil, may be changed.
func (l *leaf) clone(method *string) *leaf {
	same := &leaf{any: l.any, byMethod: slices.Clone(l.byMethod), byHost: l.byHost}
	list := same.listOf(method)
	*list = slices.Clone(*list)
	return same
}

// listOf returns the list of the rules of a method, nil for rules without one.
func (l *leaf) listOf(method *string) *[]*Compiled {
	if method == nil {
		return &l.any
	}
	at, ok := slices.BinarySearchFunc(l.byMethod, *method, compareMethod)
	if !ok {
		l.byMethod = slices.Insert(l.byMethod, at, methodRules{method: *method})
	}
	return &l.byMethod[at].rules
}

func compareMethod(m methodRules, method string) int { return strings.Compare(m.method, method) }

// collect appends the rules of the leaf that match a method and a host ("" is absent).
func (l *leaf) collect(method, host string, dst []*Compiled) []*Compiled {
	if l.byHost != nil && host != "" {
		dst = l.collectHost(method, host, dst)
	}
	return l.collectMethod(method, dst)
}

// collectMethod is collect for the rules without a host.
func (l *leaf) collectMethod(method string, dst []*Compiled) []*Compiled {
	dst = append(dst, l.any...)
	if len(l.byMethod) == 0 || method == "" {
		return dst
	}
	dst = l.ofMethod(method, dst)
	if method == route.Head { // see route.Covers
		dst = l.ofMethod(route.Get, dst)
	}
	return dst
}

// ofMethod appends the rules without a host that name a method.
func (l *leaf) ofMethod(method string, dst []*Compiled) []*Compiled {
	if at, ok := slices.BinarySearchFunc(l.byMethod, method, compareMethod); ok {
		dst = append(dst, l.byMethod[at].rules...)
	}
	return dst
}

// collectHost appends the rules for a host and for the names below each of its parents.
func (l *leaf) collectHost(method, host string, dst []*Compiled) []*Compiled {
	for name := host; ; {
		if of := l.byHost.Get(name); of != nil {
			dst = of.collectMethod(method, dst)
		}
		at := strings.IndexByte(name[1:], '.')
		if at < 0 {
			return dst
		}
		name = name[1+at:]
	}
}

// collect appends the rules that match a normalised path, method and host, ordered by id. One that is empty is
// absent and does not match rules that name one.
func (x *index) collect(path, method, host string, dst []*Compiled) []*Compiled {
	from := len(dst)
	if x.everywhere != nil {
		dst = x.everywhere.collect(method, host, dst)
	}
	if path != "" {
		if x.exact != nil {
			if l := x.exact.Get(path); l != nil {
				dst = l.collect(method, host, dst)
			}
		}
		if x.trie != nil {
			dst = x.trie.collect(path[1:], method, host, dst)
		}
	}
	slices.SortFunc(dst[from:], compareRules)
	return dst
}

// collect walks every branch that matches the rest of a path.
func (n *node) collect(rest, method, host string, dst []*Compiled) []*Compiled {
	if n.tail != nil {
		dst = n.tail.collect(method, host, dst)
	}
	if rest == "" {
		if n.end != nil {
			dst = n.end.collect(method, host, dst)
		}
		return dst
	}
	if n.static == nil && n.param == nil {
		return dst
	}
	seg, after, _ := strings.Cut(rest, "/")
	if next := n.static.Get(seg); next != nil {
		dst = next.collect(after, method, host, dst)
	}
	if n.param != nil {
		dst = n.param.collect(after, method, host, dst)
	}
	return dst
}
