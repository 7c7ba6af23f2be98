package rules

import (
	"slices"
	"strings"
)

// index finds the rules whose route and method fit, in time that depends on
// how many do and on the depth of the path, not on how many rules there are.
// It is immutable once its set is built; change edits a copy that shares what
// did not change.
type index struct {
	everywhere *leaf         // rules without a route
	exact      *table[*leaf] // plain paths, whole
	trie       *node         // patterns, by segment; nil when there are none
}

// leaf holds the rules of one route, by method and in order of id. A nil leaf is empty.
type leaf struct {
	any      []*Compiled
	byMethod []methodRules // in order of method
}

type methodRules struct {
	method string
	rules  []*Compiled
}

// node is one segment of the patterns that begin alike.
type node struct {
	static *table[*node]
	param  *node
	end    *leaf // patterns that end here
	tail   *leaf // patterns that end here in /*
}

// indexEdit changes the index x. Without inPlace it copies what it changes,
// because other sets share it.
type indexEdit struct {
	x       *index
	inPlace bool
}

// build makes the index of all rules.
func (x *index) build(rules *ordered) {
	*x = index{}
	e := indexEdit{x, true}
	for c := range rules.all() {
		e.change(c, func(l *leaf) *leaf { return l.with(c, true) })
	}
}

// change gives a copy of the index without the rules drop and with the rules put.
func (x *index) change(drop, put []*Compiled) index {
	out := *x
	e := indexEdit{&out, false}
	for _, c := range drop {
		e.change(c, func(l *leaf) *leaf { return l.without(c) })
	}
	for _, c := range put {
		e.change(c, func(l *leaf) *leaf { return l.with(c, false) })
	}
	return out
}

// change puts what edit makes of the leaf of a rule's route in its place.
func (e *indexEdit) change(c *Compiled, edit func(*leaf) *leaf) {
	x := e.x
	switch {
	case c.route == nil:
		x.everywhere = edit(x.everywhere)
	case c.route.Exact():
		x.exact = tableWith(x.exact, *c.Rule.Route, edit(x.exact.get(*c.Rule.Route)), e.inPlace)
	default:
		x.trie = e.below(x.trie, c.route.Segments, c.route.Tail, edit)
	}
}

// below changes the leaf of a pattern whose segments remain below n, and gives
// the node that stands in n's place, nil if it is empty.
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
		was := n.static.get(segments[0])
		if is := e.below(was, segments[1:], tail, edit); is != was {
			n.static = tableWith(n.static, segments[0], is, e.inPlace)
		}
	}
	if *n == (node{}) {
		return nil
	}
	return n
}

// tableWith gives the table with a value for a key, or without the key if the
// value is nil.
func tableWith[V any](t *table[*V], key string, v *V, inPlace bool) *table[*V] {
	if v == nil {
		return t.remove(key)
	}
	return t.put(key, v, inPlace)
}

// with gives the leaf and a rule that is not in it.
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

// without gives the leaf without a rule, nil if it is empty then.
func (l *leaf) without(c *Compiled) *leaf {
	l = l.clone(c.Rule.Method)
	list := l.listOf(c.Rule.Method)
	*list = slices.DeleteFunc(*list, func(other *Compiled) bool { return other == c })
	l.byMethod = slices.DeleteFunc(l.byMethod, func(m methodRules) bool { return len(m.rules) == 0 })
	if len(l.any) == 0 && len(l.byMethod) == 0 {
		return nil
	}
	return l
}

// clone gives a copy in which the rules of one method, nil for any, may be changed.
func (l *leaf) clone(method *string) *leaf {
	same := &leaf{any: l.any, byMethod: slices.Clone(l.byMethod)}
	list := same.listOf(method)
	*list = slices.Clone(*list)
	return same
}

// listOf is where the rules of a method stand, nil for any.
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

// collect appends the rules of the leaf that fit a method ("" is absent).
func (l *leaf) collect(method string, dst []*Compiled) []*Compiled {
	dst = append(dst, l.any...)
	if len(l.byMethod) == 0 || method == "" {
		return dst
	}
	if at, ok := slices.BinarySearchFunc(l.byMethod, method, compareMethod); ok {
		dst = append(dst, l.byMethod[at].rules...)
	}
	return dst
}

// collect appends the rules that fit a normalised route and method, in order of
// id. An empty route or method is absent: rules that name one do not fit.
func (x *index) collect(route, method string, dst []*Compiled) []*Compiled {
	from := len(dst)
	if x.everywhere != nil {
		dst = x.everywhere.collect(method, dst)
	}
	if route != "" {
		if l := x.exact.get(route); l != nil {
			dst = l.collect(method, dst)
		}
		if x.trie != nil {
			dst = x.trie.collect(route[1:], method, dst)
		}
	}
	slices.SortFunc(dst[from:], compareRules)
	return dst
}

// collect walks every branch that the rest of a path fits.
func (n *node) collect(rest, method string, dst []*Compiled) []*Compiled {
	if n.tail != nil {
		dst = n.tail.collect(method, dst)
	}
	if rest == "" {
		if n.end != nil {
			dst = n.end.collect(method, dst)
		}
		return dst
	}
	if n.static == nil && n.param == nil {
		return dst
	}
	seg, after, _ := strings.Cut(rest, "/")
	if next := n.static.get(seg); next != nil {
		dst = next.collect(after, method, dst)
	}
	if n.param != nil {
		dst = n.param.collect(after, method, dst)
	}
	return dst
}
