package rules

import (
	"hash/maphash"
	"slices"
)

// table is an immutable map from text. put and remove return another table that shares unchanged
// parts; they copy only the path to one entry. A lookup is as fast as in a Go map. A nil table is
// empty.
type table[V any] struct {
	parts   *[tableFan]*table[V] // by the hash's next bits; nil where entries are
	entries []tableEntry[V]
}

type tableEntry[V any] struct {
	hash  uint64
	key   string
	value V
}

const (
	tableBits = 6
	tableFan  = 1 << tableBits
	// tableMost is the largest number of entries in one leaf.
	tableMost = 32
	hashBits  = 64
)

var tableSeed = maphash.MakeSeed()

// get returns the value of a key, or the zero value.
func (t *table[V]) get(key string) (v V) {
	if t == nil {
		return v
	}
	hash := maphash.String(tableSeed, key)
	for rest := hash; t.parts != nil; rest >>= tableBits {
		if t = t.parts[rest%tableFan]; t == nil {
			return v
		}
	}
	for i := range t.entries {
		if e := &t.entries[i]; e.hash == hash && e.key == key {
			return e.value
		}
	}
	return v
}

// put returns the table with a value for a key. With inPlace, which requires that nobody else has
// the table, that is t itself unless t is empty.
func (t *table[V]) put(key string, v V, inPlace bool) *table[V] {
	return t.putAt(tableEntry[V]{maphash.String(tableSeed, key), key, v}, 0, inPlace)
}

// putAt is put below the first bits of the hash.
func (t *table[V]) putAt(e tableEntry[V], bits int, inPlace bool) *table[V] {
	if t == nil {
		return &table[V]{entries: []tableEntry[V]{e}}
	}
	out := t.forEdit(inPlace)
	if out.parts != nil {
		part := &out.parts[e.hash>>bits%tableFan]
		*part = (*part).putAt(e, bits+tableBits, inPlace)
		return out
	}
	at := slices.IndexFunc(out.entries, e.is)
	switch {
	case at >= 0:
		out.entries[at].value = e.value
	case len(out.entries) < tableMost || bits >= hashBits:
		out.entries = append(out.entries, e)
	default:
		divided := &table[V]{parts: new([tableFan]*table[V])}
		for _, was := range append(out.entries, e) {
			divided.putAt(was, bits, true)
		}
		return divided
	}
	return out
}

// remove returns the table without a key, nil if it is empty.
func (t *table[V]) remove(key string) *table[V] {
	return t.removeAt(tableEntry[V]{hash: maphash.String(tableSeed, key), key: key}, 0)
}

func (t *table[V]) removeAt(e tableEntry[V], bits int) *table[V] {
	if t == nil {
		return nil
	}
	out := t.forEdit(false)
	if out.parts != nil {
		part := &out.parts[e.hash>>bits%tableFan]
		*part = (*part).removeAt(e, bits+tableBits)
		if *part == nil && *out.parts == [tableFan]*table[V]{} {
			return nil
		}
		return out
	}
	out.entries = slices.DeleteFunc(out.entries, e.is)
	if len(out.entries) == 0 {
		return nil
	}
	return out
}

// is reports whether two entries have the same key.
func (e tableEntry[V]) is(other tableEntry[V]) bool {
	return e.hash == other.hash && e.key == other.key
}

// forEdit returns a copy of the top of the table to change, or t itself.
func (t *table[V]) forEdit(inPlace bool) *table[V] {
	if inPlace {
		return t
	}
	if t.parts != nil {
		parts := *t.parts
		return &table[V]{parts: &parts}
	}
	return &table[V]{entries: slices.Clone(t.entries)}
}
