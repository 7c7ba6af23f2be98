package rules

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
)

// overrideTable is the exact overrides of one rule, immutable and compact: some
// 40 bytes an override. Keys are kept as 128-bit hashes in order, each at the
// place where its hash belongs in an evenly filled table or soon after, so that
// finding one usually reads one line of memory.
type overrideTable struct {
	slots   []overrideEntry
	homes   uint64 // how many places hashes are spread over
	count   int
	effects []effect
}

// overrideEntry is one exact key, or a vacant place.
type overrideEntry struct {
	a, b   uint64 // the hash of the key
	id     int64
	effect uint32 // in effects, or one of the two below
	// order tells edits of one key apart while a table is made.
	order uint32
}

const (
	// gone marks the entry of a key that has no override any more.
	gone = ^uint32(0)
	// vacant marks a place without an entry.
	vacant = gone - 1
)

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
	return spread(kept, effects)
}

// spread makes a table of distinct entries in order, four of five places filled.
func spread(entries []overrideEntry, effects []effect) *overrideTable {
	t := &overrideTable{homes: uint64(len(entries)*5/4 + 1), count: len(entries), effects: effects}
	t.slots = make([]overrideEntry, 0, int(t.homes)+16)
	for i := range entries {
		for home := t.home(entries[i].a); len(t.slots) < home; {
			t.slots = append(t.slots, overrideEntry{effect: vacant})
		}
		t.slots = append(t.slots, entries[i])
	}
	t.slots = slices.Clip(t.slots)
	return t
}

// home is where a hash belongs.
func (t *overrideTable) home(a uint64) int {
	hi, _ := bits.Mul64(a, t.homes)
	return int(hi)
}

// find gives the entry of a hash, nil if there is none.
func (t *overrideTable) find(a, b uint64) *overrideEntry {
	for i := t.home(a); i < len(t.slots); i++ {
		e := &t.slots[i]
		if e.a == a && e.b == b && e.effect != vacant {
			return e
		}
		if e.effect == vacant || e.a > a {
			return nil
		}
	}
	return nil
}

// all gives the entries in order.
func (t *overrideTable) all() iter.Seq[overrideEntry] {
	return func(yield func(overrideEntry) bool) {
		for i := range t.slots {
			if t.slots[i].effect != vacant && !yield(t.slots[i]) {
				return
			}
		}
	}
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
	size := 0
	if older != nil {
		xs, size = older.slots, older.count
	}
	if newer != nil {
		ys, size = newer.slots, size+newer.count
	}
	out = make([]overrideEntry, 0, size)
	for {
		if xs, ys = skipVacant(xs), skipVacant(ys); len(xs) == 0 && len(ys) == 0 {
			return spread(out, in.list)
		}
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
}

func skipVacant(es []overrideEntry) []overrideEntry {
	for len(es) > 0 && es[0].effect == vacant {
		es = es[1:]
	}
	return es
}
