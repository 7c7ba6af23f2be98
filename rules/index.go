package rules

import (
	"slices"
	"strings"
)

// index finds the rules whose route and method fit, in time that depends on
// how many do and on the depth of the path, not on how many rules there are.
// Rules are named by their position in Set.rules.
type index struct {
	everywhere leaf             // rules without a route
	exact      map[string]*leaf // plain paths, whole
	trie       *node            // patterns, by segment; nil when there are none
}

// leaf holds the rules of one route, by method.
type leaf struct {
	any      []int32
	byMethod []methodRules // in order of method
}

type methodRules struct {
	method string
	rules  []int32
}

// node is one segment of the patterns that begin alike.
type node struct {
	static map[string]*node
	param  *node
	end    *leaf // patterns that end here
	tail   *leaf // patterns that end here in /*
}

func (x *index) build(rules []Compiled) {
	x.exact = make(map[string]*leaf)
	for i := range rules {
		x.leafOf(&rules[i]).add(rules[i].Rule.Method, int32(i))
	}
}

// leafOf finds or makes the leaf of a rule's route.
func (x *index) leafOf(c *Compiled) *leaf {
	switch {
	case c.route == nil:
		return &x.everywhere
	case c.route.exact():
		l := x.exact[*c.Rule.Route]
		if l == nil {
			l = &leaf{}
			x.exact[*c.Rule.Route] = l
		}
		return l
	}
	if x.trie == nil {
		x.trie = &node{}
	}
	n := x.trie
	for _, seg := range c.route.segments {
		n = n.child(seg)
	}
	at := &n.end
	if c.route.tail {
		at = &n.tail
	}
	if *at == nil {
		*at = &leaf{}
	}
	return *at
}

func (n *node) child(seg string) *node {
	if seg == "" {
		if n.param == nil {
			n.param = &node{}
		}
		return n.param
	}
	next := n.static[seg]
	if next == nil {
		if n.static == nil {
			n.static = make(map[string]*node)
		}
		next = &node{}
		n.static[seg] = next
	}
	return next
}

func (l *leaf) add(method *string, i int32) {
	if method == nil {
		l.any = append(l.any, i)
		return
	}
	at, ok := slices.BinarySearchFunc(l.byMethod, *method, compareMethod)
	if !ok {
		l.byMethod = slices.Insert(l.byMethod, at, methodRules{method: *method})
	}
	l.byMethod[at].rules = append(l.byMethod[at].rules, i)
}

func compareMethod(m methodRules, method string) int { return strings.Compare(m.method, method) }

// collect appends the rules of the leaf that fit a method ("" is absent).
func (l *leaf) collect(method string, dst []int32) []int32 {
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
// position. An empty route or method is absent: rules that name one do not fit.
func (x *index) collect(route, method string, dst []int32) []int32 {
	from := len(dst)
	dst = x.everywhere.collect(method, dst)
	if route != "" {
		if l := x.exact[route]; l != nil {
			dst = l.collect(method, dst)
		}
		if x.trie != nil {
			dst = x.trie.collect(route[1:], method, dst)
		}
	}
	slices.Sort(dst[from:])
	return dst
}

// collect walks every branch that the rest of a path fits.
func (n *node) collect(rest, method string, dst []int32) []int32 {
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
	if next := n.static[seg]; next != nil {
		dst = next.collect(after, method, dst)
	}
	if n.param != nil {
		dst = n.param.collect(after, method, dst)
	}
	return dst
}
