package rules

import (
	"cmp"
	"math/bits"
	"slices"
)

// overrideTable is the exact overrides of one rule, immutable and compact: 32
// bytes an override and one or two more to find it. Keys are kept as 128-bit
// hashes, in order, with the number of the first entry for each beginning.
type overrideTable struct {
	entries []overrideEntry
	starts  []uint32 // by the first bits of a; one more at the end
	shift   uint8    // which leaves those bits
	effects []effect
}

// overrideEntry is one exact key.
type overrideEntry struct {
	a, b   uint64 // the hash of the key
	id     int64
	effect uint32 // in effects, or gone
	// order tells edits of one key apart while a table is made.
	order uint32
}

// gone marks the entry of a key that has no override any more.
const gone = ^uint32(0)

func compareEntries(x, y overrideEntry) int {
	return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b), cmp.Compare(x.order, y.order))
}

// makeTable takes over entries, in any order; of those with one key the last
// counts.
func makeTable(entries []overrideEntry, effects []effect) *overrideTable {
	for i := range entries {
		entries[i].order = uint32(i)
	}
	slices.SortFunc(entries, compareEntries)
	kept := entries[:0]
	for i := range entries {
		if i+1 < len(entries) && entries[i+1].a == entries[i].a && entries[i+1].b == entries[i].b {
			continue
		}
		kept = append(kept, entries[i])
	}
	t := &overrideTable{entries: kept, effects: effects}
	t.index()
	return t
}

// index makes starts: about four entries a beginning.
func (t *overrideTable) index() {
	width := max(1, bits.Len(uint(len(t.entries)))-2)
	t.shift = uint8(64 - width)
	t.starts = make([]uint32, 1<<width+1)
	next := 0
	for i := range t.entries {
		for at := int(t.entries[i].a >> t.shift); next <= at; next++ {
			t.starts[next] = uint32(i)
		}
	}
	for ; next < len(t.starts); next++ {
		t.starts[next] = uint32(len(t.entries))
	}
}

// find gives the entry of a hash, nil if there is none.
func (t *overrideTable) find(a, b uint64) *overrideEntry {
	at := a >> t.shift
	for i := t.starts[at]; i < t.starts[at+1]; i++ {
		if e := &t.entries[i]; e.a == a && e.b == b {
			return e
		}
	}
	return nil
}

// interner gives each distinct effect one place.
type interner struct {
	list []effect
	at   map[effect]uint32
}

func (in *interner) add(e effect) uint32 {
	if in.at == nil {
		in.at = map[effect]uint32{}
	}
	i, ok := in.at[e]
	if !ok {
		i = uint32(len(in.list))
		in.list = append(in.list, e)
		in.at[e] = i
	}
	return i
}

// merge puts the newer table over the older one, either of which may be nil, and
// drops tombstones and what has ended by now (ms since the epoch).
func merge(older, newer *overrideTable, now int64) *overrideTable {
	var in interner
	var out []overrideEntry
	add := func(t *overrideTable, e overrideEntry) {
		if e.effect == gone {
			return
		}
		f := t.effects[e.effect]
		if f.expires != 0 && f.expires <= now {
			return
		}
		e.effect = in.add(f)
		out = append(out, e)
	}
	var xs, ys []overrideEntry
	if older != nil {
		xs = older.entries
	}
	if newer != nil {
		ys = newer.entries
	}
	out = make([]overrideEntry, 0, len(xs)+len(ys))
	for len(xs) > 0 || len(ys) > 0 {
		c := -1
		switch {
		case len(xs) == 0:
			c = 1
		case len(ys) > 0:
			c = cmp.Or(cmp.Compare(xs[0].a, ys[0].a), cmp.Compare(xs[0].b, ys[0].b))
		}
		if c < 0 {
			add(older, xs[0])
			xs = xs[1:]
			continue
		}
		add(newer, ys[0])
		ys = ys[1:]
		if c == 0 {
			xs = xs[1:]
		}
	}
	t := &overrideTable{entries: out, effects: in.list}
	t.index()
	return t
}
