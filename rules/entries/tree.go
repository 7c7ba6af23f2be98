package entries

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice/rules/textmap"
)

// Tree maps lists of elements of a domain to values. It is immutable: Put and Remove return another
// tree that shares unchanged parts. The zero value is empty.
type Tree[V any] struct{ domains *textmap.Map[*node[V]] }

// node is the beginning that some lists share. A nil node is empty.
type node[V any] struct {
	value V
	has   bool // a list ends here
	keys  *textmap.Map[*choice[V]]
}

// choice holds what may follow a node for one key, by what is said about the value.
type choice[V any] struct {
	exact    *textmap.Map[*node[V]]
	patterns []pattern[V] // in the order in which they are tried
	any      *node[V]
}

type pattern[V any] struct {
	text     string
	literals int
	below    *node[V]
}

// End says how a walk ended.
type End uint8

// The ends of a walk.
const (
	// Found: at the value of a list.
	Found End = iota
	// NoDomain: the tree has no list of the domain.
	NoDomain
	// NoFit: elements follow, and none fits the entry.
	NoFit
	// TooDeep: entries are left, and no element follows.
	TooDeep
	// NoValue: elements follow, no entries are left, and no list ends here.
	NoValue
)

// Walk finds the value of a descriptor. It compares entry by entry: an exact value beats a pattern, and a pattern beats
// an element that fits every value. It does not backtrack. If several patterns fit, it chooses the pattern with the
// most characters other than *, and among equals the first in alphabetical order. at is the number of entries that fit.
func (t Tree[V]) Walk(domain string, list []Entry) (v V, end End, at int) {
	n := t.domains.Get(domain)
	if n == nil {
		return v, NoDomain, 0
	}
	for i := range list {
		next := n.keys.Get(list[i].Key).next(list[i].Value)
		if next == nil {
			if n.keys == nil {
				return v, TooDeep, i
			}
			return v, NoFit, i
		}
		n = next
	}
	if !n.has {
		return v, NoValue, len(list)
	}
	return n.value, Found, len(list)
}

// next returns the node that a value leads to, nil if there is none.
func (c *choice[V]) next(value string) *node[V] {
	if c == nil {
		return nil
	}
	if n := c.exact.Get(value); n != nil {
		return n
	}
	for i := range c.patterns {
		if Fits(c.patterns[i].text, value) {
			return c.patterns[i].below
		}
	}
	return c.any
}

// HasDomain reports whether the tree has a list of the domain.
func (t Tree[V]) HasDomain(domain string) bool { return t.domains.Get(domain) != nil }

// Get returns the value of a list of elements. Element.Shared does not count.
func (t Tree[V]) Get(domain string, list []Element) (v V, ok bool) {
	n := t.domains.Get(domain)
	for i := range list {
		if n == nil {
			return v, false
		}
		n = n.keys.Get(list[i].Key).below(&list[i])
	}
	if n == nil {
		return v, false
	}
	return n.value, n.has
}

// below returns the node of an element, nil if there is none.
func (c *choice[V]) below(e *Element) *node[V] {
	switch {
	case c == nil:
		return nil
	case e.Value != "":
		return c.exact.Get(e.Value)
	case e.Pattern == "":
		return c.any
	}
	if i, ok := c.find(e.Pattern); ok {
		return c.patterns[i].below
	}
	return nil
}

// find returns the place of a pattern.
func (c *choice[V]) find(text string) (int, bool) {
	return slices.BinarySearchFunc(c.patterns, newPattern[V](text), pattern[V].compare)
}

func newPattern[V any](text string) pattern[V] {
	return pattern[V]{text: text, literals: utf8.RuneCountInString(text) - strings.Count(text, "*")}
}

func (p pattern[V]) compare(other pattern[V]) int {
	return cmp.Or(cmp.Compare(other.literals, p.literals), strings.Compare(p.text, other.text))
}

// Before reports whether the pattern p applies rather than q to a value that fits both: the pattern with more literal
// characters, and among equals the one that sorts first.
func Before(p, q string) bool { return newPattern[struct{}](p).compare(newPattern[struct{}](q)) < 0 }

// Put returns the tree with a value for a list of elements. With inPlace, which requires that nobody
// else has the tree, it changes the nodes of t.
func (t Tree[V]) Put(domain string, list []Element, v V, inPlace bool) Tree[V] {
	return t.edit(domain, list, inPlace, func(n *node[V]) { n.value, n.has = v, true })
}

// Remove returns the tree without the value of a list of elements.
func (t Tree[V]) Remove(domain string, list []Element) Tree[V] {
	return t.edit(domain, list, false, func(n *node[V]) {
		var none V
		n.value, n.has = none, false
	})
}

func (t Tree[V]) edit(domain string, list []Element, inPlace bool, end func(*node[V])) Tree[V] {
	return Tree[V]{with(t.domains, domain, t.domains.Get(domain).edit(list, inPlace, end), inPlace)}
}

// with returns a map with a node or choice for a key, or without the key for nil.
func with[T any](m *textmap.Map[*T], key string, v *T, inPlace bool) *textmap.Map[*T] {
	if v == nil {
		return m.Remove(key)
	}
	return m.Put(key, v, inPlace)
}

// edit changes the node at the end of a list. It returns what replaces n, nil if that is empty.
func (n *node[V]) edit(list []Element, inPlace bool, end func(*node[V])) *node[V] {
	n = own(n, inPlace)
	if len(list) == 0 {
		end(n)
	} else {
		key := list[0].Key
		n.keys = with(n.keys, key, n.keys.Get(key).edit(list, inPlace, end), inPlace)
	}
	if !n.has && n.keys == nil {
		return nil
	}
	return n
}

// edit is node.edit for the choice of the first element's key.
func (c *choice[V]) edit(list []Element, inPlace bool, end func(*node[V])) *choice[V] {
	e := &list[0]
	is := c.below(e).edit(list[1:], inPlace, end)
	c = own(c, inPlace)
	switch {
	case e.Value != "":
		c.exact = with(c.exact, e.Value, is, inPlace)
	case e.Pattern == "":
		c.any = is
	default:
		c.setPattern(e.Pattern, is, inPlace)
	}
	if c.exact == nil && len(c.patterns) == 0 && c.any == nil {
		return nil
	}
	return c
}

func (c *choice[V]) setPattern(text string, is *node[V], inPlace bool) {
	if !inPlace {
		c.patterns = slices.Clone(c.patterns)
	}
	at, found := c.find(text)
	switch {
	case is == nil && found:
		c.patterns = slices.Delete(c.patterns, at, at+1)
	case is == nil:
	case found:
		c.patterns[at].below = is
	default:
		p := newPattern[V](text)
		p.below = is
		c.patterns = slices.Insert(c.patterns, at, p)
	}
}

// own returns a node or choice that may be changed: a new one for nil, p itself with inPlace, and otherwise a copy.
func own[T any](p *T, inPlace bool) *T {
	switch {
	case p == nil:
		return new(T)
	case inPlace:
		return p
	}
	same := *p
	return &same
}

// Fits reports whether a value fits a pattern, in which each * stands for any text, including the empty one.
func Fits(pattern, value string) bool {
	before, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == value
	}
	value, ok := strings.CutPrefix(value, before)
	if !ok {
		return false
	}
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(value, part)
		}
		at := strings.Index(value, part)
		if at < 0 {
			return false
		}
		value, rest = value[at+len(part):], after
	}
}
