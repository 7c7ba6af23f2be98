// Package textmap has an immutable map from text, whose versions share what they have in common.
package textmap

import (
	"hash/maphash"
	"slices"
)

// Map is an immutable map from text. Put and Remove return another map that shares unchanged
// parts; they copy only the path to one entry. A lookup is as fast as in a Go map. A nil map is
// empty.
type Map[V any] struct {
	parts   *[fan]*Map[V] // by the hash's next bits; nil where entries are
	entries []entry[V]
}

type entry[V any] struct {
	hash  uint64
	key   string
	value V
}

const (
	fanBits = 6
	fan     = 1 << fanBits
	// most is the largest number of entries in one leaf.
	most     = 32
	hashBits = 64
)

var seed = maphash.MakeSeed()

// Get returns the value of a key, or the zero value.
func (m *Map[V]) Get(key string) (v V) {
	if m == nil {
		return v
	}
	hash := maphash.String(seed, key)
	for rest := hash; m.parts != nil; rest >>= fanBits {
		if m = m.parts[rest%fan]; m == nil {
			return v
		}
	}
	for i := range m.entries {
		if e := &m.entries[i]; e.hash == hash && e.key == key {
			return e.value
		}
	}
	return v
}

// Put returns the map with a value for a key. With inPlace, which requires that nobody else has
// the map, that is m itself unless t is empty.
func (m *Map[V]) Put(key string, v V, inPlace bool) *Map[V] {
	return m.putAt(entry[V]{maphash.String(seed, key), key, v}, 0, inPlace)
}

// putAt is Put below the first bits of the hash.
func (m *Map[V]) putAt(e entry[V], bits int, inPlace bool) *Map[V] {
	if m == nil {
		return &Map[V]{entries: []entry[V]{e}}
	}
	out := m.forEdit(inPlace)
	if out.parts != nil {
		part := &out.parts[e.hash>>bits%fan]
		*part = (*part).putAt(e, bits+fanBits, inPlace)
		return out
	}
	at := slices.IndexFunc(out.entries, e.is)
	switch {
	case at >= 0:
		out.entries[at].value = e.value
	case len(out.entries) < most || bits >= hashBits:
		out.entries = append(out.entries, e)
	default:
		divided := &Map[V]{parts: new([fan]*Map[V])}
		for _, was := range append(out.entries, e) {
			divided.putAt(was, bits, true)
		}
		return divided
	}
	return out
}

// Remove returns the map without a key, nil if it is empty.
func (m *Map[V]) Remove(key string) *Map[V] {
	return m.removeAt(entry[V]{hash: maphash.String(seed, key), key: key}, 0)
}

func (m *Map[V]) removeAt(e entry[V], bits int) *Map[V] {
	if m == nil {
		return nil
	}
	out := m.forEdit(false)
	if out.parts != nil {
		part := &out.parts[e.hash>>bits%fan]
		*part = (*part).removeAt(e, bits+fanBits)
		if *part == nil && *out.parts == [fan]*Map[V]{} {
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
func (e entry[V]) is(other entry[V]) bool {
	return e.hash == other.hash && e.key == other.key
}

// forEdit returns a copy of the top of the map to change, or m itself.
func (m *Map[V]) forEdit(inPlace bool) *Map[V] {
	if inPlace {
		return m
	}
	if m.parts != nil {
		parts := *m.parts
		return &Map[V]{parts: &parts}
	}
	return &Map[V]{entries: slices.Clone(m.entries)}
}
