package memstore

import "math/rand/v2"

// table is a hash map whose elements expire. They are in one dense slice, so that a sweep is a sequential read and a
// sample is one random number. An open-addressed index of 4 bytes per cell finds them: a lookup reads one cell and one
// slot, and the index of a million elements is only a few pages. Callers compute the hash. It is not safe for
// concurrent use.
type table[K comparable, V any] struct {
	// cells holds, from the first cell of the hash on, the highest byte of the hash
	// and the slot's number plus one; 0 is free. Its length is a power of two and at
	// least 4/3 of the slots.
	cells []uint32
	slots []slot[K, V]
	// cursor is where the next sweep step starts. Sweeps go downwards, so that moving
	// the last slot into a hole skips nothing.
	cursor int
}

type slot[K comparable, V any] struct {
	hash uint64
	// deadline is when the element may be dropped, ms since the store's start.
	deadline int64
	key      K
	value    V
}

// minCells is the smallest index.
const minCells = 16

// maxSlots is the largest slot number that fits a cell.
const maxSlots = 1<<24 - 1

// cell is the cell for slot number i.
func cell(hash uint64, i int) uint32 { return uint32(hash>>56)<<24 | uint32(i+1) }

// sameTag reports whether c may belong to hash.
func sameTag(c uint32, hash uint64) bool { return uint64(c>>24) == hash>>56 }

// number is the slot of c.
func number(c uint32) int { return int(c&maxSlots) - 1 }

// firstCell is the cell at which the search for hash starts. The lowest byte of the
// hash selects the shard.
func (t *table[K, V]) firstCell(hash uint64) int { return int(hash>>8) & (len(t.cells) - 1) }

// search returns the cell of key, or -1.
func (t *table[K, V]) search(hash uint64, key K) int {
	if len(t.cells) == 0 {
		return -1
	}
	mask := len(t.cells) - 1
	for c := t.firstCell(hash); t.cells[c] != 0; c = (c + 1) & mask {
		if at := t.cells[c]; sameTag(at, hash) && t.slots[number(at)].key == key {
			return c
		}
	}
	return -1
}

// find returns the slot of key, or nil. It is valid until the next add or
// remove.
func (t *table[K, V]) find(hash uint64, key K) *slot[K, V] {
	c := t.search(hash, key)
	if c < 0 {
		return nil
	}
	return &t.slots[number(t.cells[c])]
}

// add appends an element whose key is not in the table.
func (t *table[K, V]) add(s slot[K, V]) {
	t.slots = append(t.slots, s)
	if 4*len(t.slots) > 3*len(t.cells) {
		t.reindex(max(minCells, 2*len(t.cells)))
		return
	}
	t.enter(s.hash, len(t.slots)-1)
}

// enter puts slot number i into the first free cell.
func (t *table[K, V]) enter(hash uint64, i int) {
	mask := len(t.cells) - 1
	c := t.firstCell(hash)
	for t.cells[c] != 0 {
		c = (c + 1) & mask
	}
	t.cells[c] = cell(hash, i)
}

// reindex rebuilds the index with n cells.
func (t *table[K, V]) reindex(n int) {
	t.cells = make([]uint32, n)
	for i := range t.slots {
		t.enter(t.slots[i].hash, i)
	}
}

// cellOf returns the cell that holds slot number i.
func (t *table[K, V]) cellOf(i int) int {
	hash := t.slots[i].hash
	want := cell(hash, i)
	mask := len(t.cells) - 1
	c := t.firstCell(hash)
	for t.cells[c] != want {
		c = (c + 1) & mask
	}
	return c
}

// leave frees cell c and closes the gap, so that no search ends early.
func (t *table[K, V]) leave(c int) {
	mask := len(t.cells) - 1
	gap := c
	for next := (c + 1) & mask; t.cells[next] != 0; next = (next + 1) & mask {
		first := t.firstCell(t.slots[number(t.cells[next])].hash)
		// The element may move back to the gap unless its first cell is after the gap.
		if (next-first)&mask >= (next-gap)&mask {
			t.cells[gap] = t.cells[next]
			gap = next
		}
	}
	t.cells[gap] = 0
}

// remove drops key and reports whether it was there.
func (t *table[K, V]) remove(hash uint64, key K) bool {
	c := t.search(hash, key)
	if c >= 0 {
		t.removeAt(number(t.cells[c]))
	}
	return c >= 0
}

// removeAt drops slot number i and moves the last one into its place.
func (t *table[K, V]) removeAt(i int) {
	t.leave(t.cellOf(i))
	last := len(t.slots) - 1
	if i != last {
		c := t.cellOf(last)
		t.cells[c] = cell(t.slots[last].hash, i)
		t.slots[i] = t.slots[last]
	}
	t.slots[last] = slot[K, V]{}
	t.slots = t.slots[:last]
	if n := cap(t.slots); n > 256 && len(t.slots) < n/4 {
		t.slots = append(make([]slot[K, V], 0, n/2), t.slots...)
		if len(t.cells) > minCells {
			t.reindex(len(t.cells) / 2)
		}
	}
}

// sweep checks up to n elements and drops those whose deadline has passed, after a
// call of drop if that is not nil. It returns how many it dropped and whether the
// round is complete.
func (t *table[K, V]) sweep(now int64, n int, drop func(*V)) (dropped int, done bool) {
	if t.cursor <= 0 || t.cursor > len(t.slots) {
		t.cursor = len(t.slots)
	}
	for ; n > 0 && t.cursor > 0; n-- {
		t.cursor--
		if t.slots[t.cursor].deadline < now {
			if drop != nil {
				drop(&t.slots[t.cursor].value)
			}
			t.removeAt(t.cursor)
			dropped++
		}
	}
	return dropped, t.cursor == 0
}

// evictSamples is the size of the sample for an eviction; Redis's volatile-ttl uses
// five.
const evictSamples = 5

// soonest returns the number and the deadline of the slot that expires first in a
// random sample, or false if the table is empty.
func (t *table[K, V]) soonest() (i int, deadline int64, ok bool) {
	if len(t.slots) == 0 {
		return 0, 0, false
	}
	i = rand.IntN(len(t.slots))
	for range evictSamples - 1 {
		if j := rand.IntN(len(t.slots)); t.slots[j].deadline < t.slots[i].deadline {
			i = j
		}
	}
	return i, t.slots[i].deadline, true
}

// evict drops the element of a random sample that expires first, and returns it. It returns false if the
// table is empty.
func (t *table[K, V]) evict() (gone slot[K, V], ok bool) {
	i, _, ok := t.soonest()
	if ok {
		gone = t.slots[i]
		t.removeAt(i)
	}
	return gone, ok
}
