package override

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
)

// hashTable holds the exact overrides of one rule, immutable and compact: about 40 bytes per
// override. Keys are stored as sorted 128-bit hashes, each at its slot in an evenly filled table
// or soon after, so that a lookup usually reads one cache line.
type hashTable struct {
	slots   []hashEntry
	homes   uint64 // how many places hashes are spread over
	count   int
	effects []Effect
}

// hashEntry is one exact key, or a vacant slot.
type hashEntry struct {
	a, b   uint64 // the hash of the key
	id     int64
	effect uint32 // in effects, or one of the two below
	// order distinguishes edits of one key while a table is made.
	order uint32
}

const (
	// gone marks the entry of a key whose override was deleted.
	gone = ^uint32(0)
	// vacant marks a slot without an entry.
	vacant = gone - 1
)

func compareEntries(x, y hashEntry) int {
	return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b), cmp.Compare(x.order, y.order))
}

// makeTable builds a table from entries in any order and keeps entries. If several have the same key, the last counts.
func makeTable(entries []hashEntry, effects []Effect) *hashTable {
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

// spread builds a table of distinct, sorted entries with four of five slots filled.
func spread(entries []hashEntry, effects []Effect) *hashTable {
	t := &hashTable{homes: uint64(len(entries)*5/4 + 1), count: len(entries), effects: effects}
	t.slots = make([]hashEntry, 0, int(t.homes)+16)
	for i := range entries {
		for home := t.home(entries[i].a); len(t.slots) < home; {
			t.slots = append(t.slots, hashEntry{effect: vacant})
		}
		t.slots = append(t.slots, entries[i])
	}
	t.slots = slices.Clip(t.slots)
	return t
}

// home returns the slot of a hash.
func (t *hashTable) home(a uint64) int {
	hi, _ := bits.Mul64(a, t.homes)
	return int(hi)
}

// find returns the entry of a hash, nil if there is none.
func (t *hashTable) find(a, b uint64) *hashEntry {
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

// all returns the entries in order.
func (t *hashTable) all() iter.Seq[hashEntry] {
	return func(yield func(hashEntry) bool) {
		for i := range t.slots {
			if t.slots[i].effect != vacant && !yield(t.slots[i]) {
				return
			}
		}
	}
}

// interner stores each distinct effect once.
type interner struct {
	list []Effect
	at   map[Effect]uint32
}

func (in *interner) add(e Effect) uint32 {
	if in.at == nil {
		in.at = map[Effect]uint32{}
	}
	i, ok := in.at[e]
	if !ok {
		i = uint32(len(in.list))
		in.list = append(in.list, e)
		in.at[e] = i
	}
	return i
}

// merge combines two tables. The newer takes precedence, and either may be nil. It drops tombstones and overrides that
// have expired by now (ms since the epoch).
func merge(older, newer *hashTable, now int64) *hashTable {
	var in interner
	var out []hashEntry
	add := func(t *hashTable, e hashEntry) {
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
	var xs, ys []hashEntry
	size := 0
	if older != nil {
		xs, size = older.slots, older.count
	}
	if newer != nil {
		ys, size = newer.slots, size+newer.count
	}
	out = make([]hashEntry, 0, size)
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

func skipVacant(es []hashEntry) []hashEntry {
	for len(es) > 0 && es[0].effect == vacant {
		es = es[1:]
	}
	return es
}
