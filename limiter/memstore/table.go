package memstore

import "math/rand/v2"

// table is a map whose elements expire. They lie densely in one slice, so that
// sweeping is a sequential read and sampling is one random number. Not safe for
// concurrent use.
type table[K comparable, V any] struct {
	index map[K]uint32
	slots []slot[K, V]
	// cursor is where the next sweep step ends; it runs from the end of slots
	// to the start, so that moving the last slot into a hole skips nothing.
	cursor int
}

type slot[K comparable, V any] struct {
	key K
	// deadline is when the element may be dropped, ms since the store's start.
	deadline int64
	value    V
}

// find returns the slot of key, or nil. It is valid until the next add or
// remove.
func (t *table[K, V]) find(key K) *slot[K, V] {
	if i, ok := t.index[key]; ok {
		return &t.slots[i]
	}
	return nil
}

// add appends an element whose key is not in the table.
func (t *table[K, V]) add(s slot[K, V]) {
	if t.index == nil {
		t.index = make(map[K]uint32)
	}
	t.index[s.key] = uint32(len(t.slots))
	t.slots = append(t.slots, s)
}

// remove drops key and reports whether it was there.
func (t *table[K, V]) remove(key K) bool {
	i, ok := t.index[key]
	if ok {
		t.removeAt(int(i))
	}
	return ok
}

func (t *table[K, V]) removeAt(i int) {
	delete(t.index, t.slots[i].key)
	last := len(t.slots) - 1
	if i != last {
		t.slots[i] = t.slots[last]
		t.index[t.slots[i].key] = uint32(i)
	}
	t.slots[last] = slot[K, V]{}
	t.slots = t.slots[:last]
	if cap(t.slots) > 256 && len(t.slots) < cap(t.slots)/4 {
		t.slots = append(make([]slot[K, V], 0, cap(t.slots)/2), t.slots...)
	}
}

// sweep looks at up to n elements and drops those whose deadline is past. It
// reports how many it dropped and whether it has been all the way round.
func (t *table[K, V]) sweep(now int64, n int) (dropped int, done bool) {
	if t.cursor <= 0 || t.cursor > len(t.slots) {
		t.cursor = len(t.slots)
	}
	for ; n > 0 && t.cursor > 0; n-- {
		t.cursor--
		if t.slots[t.cursor].deadline < now {
			t.removeAt(t.cursor)
			dropped++
		}
	}
	return dropped, t.cursor == 0
}

// evictSamples is how many elements compete to be evicted, as in Redis's
// volatile-ttl, which takes five.
const evictSamples = 8

// evict drops the element of a random sample that would expire first. It
// reports false if the table is empty.
func (t *table[K, V]) evict() bool {
	if len(t.slots) == 0 {
		return false
	}
	victim := rand.IntN(len(t.slots))
	for range evictSamples - 1 {
		if i := rand.IntN(len(t.slots)); t.slots[i].deadline < t.slots[victim].deadline {
			victim = i
		}
	}
	t.removeAt(victim)
	return true
}
