package override

import (
	"slices"
	"strings"
)

// prefixTable holds the wildcards of one rule ordered by text, immutable.
type prefixTable []prefixEntry

// prefixEntry is one wildcard.
type prefixEntry struct {
	match  string
	id     int64
	effect Effect
	// parent is the longest other wildcard that is a prefix of this one, -1 for none.
	parent int
}

// with returns the table with entries replaced, added or removed. It leaves out wildcards that
// have expired by now.
func (t prefixTable) with(edits map[string]*prefixEntry, now int64) prefixTable {
	out := make(prefixTable, 0, len(t)+len(edits))
	for i := range t {
		if _, edited := edits[t[i].match]; !edited {
			out = append(out, t[i])
		}
	}
	for _, e := range edits {
		if e != nil {
			out = append(out, *e)
		}
	}
	out = slices.DeleteFunc(out, func(e prefixEntry) bool { return e.effect.ended(now) })
	slices.SortFunc(out, func(a, b prefixEntry) int { return strings.Compare(a.match, b.match) })
	for i := range out {
		p := i - 1
		for p >= 0 && !strings.HasPrefix(out[i].match, out[p].match) {
			p = out[p].parent
		}
		out[i].parent = p
	}
	return out
}

// longest returns the longest wildcard that text begins with, that has at least
// the given length and has not ended; nil if there is none.
//
// Every wildcard that text begins with is the last wildcard not above text in the order, or a parent of that one: texts
// between the two begin with it as well.
func (t prefixTable) longest(text []byte, least int, now int64) *prefixEntry {
	lo, hi := 0, len(t)
	for lo < hi {
		if mid := (lo + hi) / 2; t[mid].match <= string(text) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for i := lo - 1; i >= 0; i = t[i].parent {
		e := &t[i]
		if len(text) < len(e.match) || string(text[:len(e.match)]) != e.match {
			continue
		}
		if len(e.match) < least {
			return nil // and its parents are shorter still
		}
		if !e.effect.ended(now) {
			return e
		}
	}
	return nil
}
