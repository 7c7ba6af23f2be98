package match

import (
	"iter"
	"slices"
	"sort"
)

// maxChunk is the largest number of rules in one chunk of an ordered list.
const maxChunk = 256

// ordered is an immutable ordered list of rules in chunks, so that a changed list shares all chunks that do not differ.
// The zero value is empty.
type ordered struct {
	chunks []chunk
}

// chunk is a part of an ordered list, never empty.
type chunk struct {
	// start is the number of rules of the list before this chunk.
	start int
	rules []*Compiled
}

func (o *ordered) len() int {
	if len(o.chunks) == 0 {
		return 0
	}
	last := &o.chunks[len(o.chunks)-1]
	return last.start + len(last.rules)
}

// at returns the i-th rule, 0 <= i < len.
func (o *ordered) at(i int) *Compiled {
	n := sort.Search(len(o.chunks), func(n int) bool { return o.chunks[n].start > i })
	c := &o.chunks[n-1]
	return c.rules[i-c.start]
}

// all returns the rules in order.
func (o *ordered) all() iter.Seq[*Compiled] {
	return func(yield func(*Compiled) bool) {
		for i := range o.chunks {
			for _, c := range o.chunks[i].rules {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// from returns the rules from a point of the order on. before reports whether a rule is before
// that point.
func (o *ordered) from(before func(*Compiled) bool) iter.Seq[*Compiled] {
	return func(yield func(*Compiled) bool) {
		// All rules of earlier chunks are before the point.
		n := max(0, sort.Search(len(o.chunks), func(n int) bool { return !before(o.chunks[n].rules[0]) })-1)
		for first := true; n < len(o.chunks); n++ {
			rules := o.chunks[n].rules
			if first {
				rules = rules[sort.Search(len(rules), func(i int) bool { return !before(rules[i]) }):]
			}
			first = false
			for _, c := range rules {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// with returns the list without the rules drop and with the rules put. Both are ordered by
// compare, as the list is. All of drop must be in the list.
func (o *ordered) with(drop, put []*Compiled, compare func(a, b *Compiled) int) ordered {
	var out ordered
	start := 0
	add := func(rules []*Compiled) { // in chunks of equal size
		count := (len(rules) + maxChunk - 1) / maxChunk
		for i := range count {
			part := rules[i*len(rules)/count : (i+1)*len(rules)/count]
			out.chunks = append(out.chunks, chunk{start: start, rules: slices.Clip(part)})
			start += len(part)
		}
	}
	for i := range o.chunks {
		rules := o.chunks[i].rules
		dropped, added := len(drop), len(put)
		if i+1 < len(o.chunks) {
			next := o.chunks[i+1].rules[0]
			dropped = cutAt(drop, next, compare)
			added = cutAt(put, next, compare)
		}
		if dropped == 0 && added == 0 {
			add(rules)
			continue
		}
		add(mergeRules(rules, drop[:dropped], put[:added], compare))
		drop, put = drop[dropped:], put[added:]
	}
	add(slices.Clone(put)) // the list was empty
	return out
}

// cutAt returns the number of rules before the rule next.
func cutAt(rules []*Compiled, next *Compiled, compare func(a, b *Compiled) int) int {
	return sort.Search(len(rules), func(i int) bool { return compare(rules[i], next) >= 0 })
}

// mergeRules returns rules without drop and with put, in order.
func mergeRules(rules, drop, put []*Compiled, compare func(a, b *Compiled) int) []*Compiled {
	out := make([]*Compiled, 0, len(rules)+len(put))
	for _, c := range rules {
		if len(drop) > 0 && drop[0] == c {
			drop = drop[1:]
			continue
		}
		for len(put) > 0 && compare(put[0], c) < 0 {
			out, put = append(out, put[0]), put[1:]
		}
		out = append(out, c)
	}
	return append(out, put...)
}
