package limiter

import (
	"cmp"
	"slices"
	"sort"
)

// The slots of a concurrency limit are sorted by start, and within a millisecond by id. Up to looseMax of them are in
// State.Entries. If there are more, State.Slots holds them in chunks, each with its sum, and finds them by id. A
// decision thus reads the sums and one or two chunks.

// Slots are the many slots of one bucket. It belongs to the State that points to it.
type Slots struct {
	// moved is added to every time that is kept here.
	moved  int64
	starts map[string]int64
	chunks []slotChunk
}

// slotChunk has 1 to looseMax slots, and their units.
type slotChunk struct {
	units   int64
	entries []Entry
}

func (c *slotChunk) last() *Entry { return &c.entries[len(c.entries)-1] }

func bySlot(a, b Entry) int {
	if a.At != b.At {
		return cmp.Compare(a.At, b.At)
	}
	return cmp.Compare(a.ID, b.ID)
}

// sum returns the units of entries outside chunks.
func sum(es []Entry) int64 {
	var n int64
	for i := range es {
		n = addSat(n, es[i].Weight)
	}
	read(len(es))
	return n
}

// after returns the index of the first entry that began after limit.
func after(es []Entry, limit int64) int {
	return sort.Search(len(es), func(i int) bool { return es[i].At > limit })
}

// liveSlots are the slots of a state that still count: the first chunk without its ended slots, and the others.
type liveSlots struct {
	first []Entry
	units int64 // of first
	rest  []slotChunk
	moved int64
}

func (s *State) liveSlots(limit int64) liveSlots {
	v := liveSlots{first: s.Entries}
	if s.Slots != nil {
		v.moved = s.Slots.moved
		chunks := s.Slots.chunks
		i := sort.Search(len(chunks), func(i int) bool { return chunks[i].last().At > limit-v.moved })
		if i == len(chunks) {
			return liveSlots{}
		}
		v.first, v.rest = chunks[i].entries, chunks[i+1:]
	}
	v.first = v.first[after(v.first, limit-v.moved):]
	v.units = sum(v.first)
	return v
}

// held returns the units.
func (v *liveSlots) held() int64 {
	n := v.units
	for i := range v.rest {
		n = addSat(n, v.rest[i].units)
	}
	return n
}

// until returns the start of the slot with which the oldest have need units; there are as many.
func (v *liveSlots) until(need int64) int64 {
	es, units := v.first, v.units
	for rest := v.rest; need > units; rest = rest[1:] {
		need -= units
		es, units = rest[0].entries, rest[0].units
	}
	read(len(es))
	i := 0
	for ; need > es[i].Weight; i++ {
		need -= es[i].Weight
	}
	return es[i].At + v.moved
}

// oldestSlot returns the first that counts.
func (s *State) oldestSlot(limit int64) (Entry, bool) {
	v := s.liveSlots(limit)
	if len(v.first) == 0 {
		return Entry{}, false
	}
	e := v.first[0]
	e.At += v.moved
	return e, true
}

// slot returns the slot of id if it counts.
func (s *State) slot(limit int64, id string) (Entry, bool) {
	if s.Slots == nil {
		read(len(s.Entries))
		i := slices.IndexFunc(s.Entries, func(e Entry) bool { return e.ID == id })
		if i < 0 || s.Entries[i].At <= limit {
			return Entry{}, false
		}
		return s.Entries[i], true
	}
	at, found := s.Slots.starts[id]
	if !found || at+s.Slots.moved <= limit {
		return Entry{}, false
	}
	c, i := s.Slots.place(Entry{At: at, ID: id})
	e := s.Slots.chunks[c].entries[i]
	e.At += s.Slots.moved
	return e, true
}

// place returns the chunk and the index in it at which e stands or would be inserted.
func (s *Slots) place(e Entry) (c, i int) {
	c = sort.Search(len(s.chunks)-1, func(i int) bool { return bySlot(*s.chunks[i].last(), e) >= 0 })
	i, _ = slices.BinarySearchFunc(s.chunks[c].entries, e, bySlot)
	return c, i
}

// addSlot adds a slot whose id is not held.
func (s *State) addSlot(e Entry) {
	if s.Slots == nil && len(s.Entries) < looseMax {
		i, _ := slices.BinarySearchFunc(s.Entries, e, bySlot)
		s.Entries = slices.Insert(s.Entries, i, e)
		return
	}
	if s.Slots == nil {
		s.Slots = newSlots(s.Entries)
		s.Entries = nil
	}
	s.Slots.add(e)
}

// newSlots makes chunks of entries, at least one, and takes them over.
func newSlots(es []Entry) *Slots {
	s := &Slots{starts: make(map[string]int64, 2*len(es))}
	for part := range slices.Chunk(es, blockSize) {
		s.chunks = append(s.chunks, slotChunk{sum(part), slices.Clone(part)})
	}
	for i := range es {
		s.starts[es[i].ID] = es[i].At
	}
	return s
}

func (s *Slots) add(e Entry) {
	e.At -= s.moved
	s.starts[e.ID] = e.At
	n, i := s.place(e)
	c := &s.chunks[n]
	c.entries, c.units = slices.Insert(c.entries, i, e), addSat(c.units, e.Weight)
	if len(c.entries) <= looseMax {
		return
	}
	// Most slots are added at the end; the chunk that stays is then nearly full.
	at := looseMax / 2
	if n == len(s.chunks)-1 {
		at = looseMax * 7 / 8
	}
	tail := slices.Clone(c.entries[at:])
	clear(c.entries[at:])
	c.entries = c.entries[:at]
	units := sum(tail)
	c.units -= units
	s.chunks = slices.Insert(s.chunks, n+1, slotChunk{units, tail})
}

// removeSlot removes a slot that the state has.
func (s *State) removeSlot(e Entry) {
	if s.Slots == nil {
		i, _ := slices.BinarySearchFunc(s.Entries, e, bySlot)
		s.Entries = slices.Delete(s.Entries, i, i+1)
		return
	}
	s.Slots.remove(e)
	s.loosen()
}

func (s *Slots) remove(e Entry) {
	e.At -= s.moved
	delete(s.starts, e.ID)
	n, i := s.place(e)
	c := &s.chunks[n]
	c.units -= c.entries[i].Weight
	c.entries = slices.Delete(c.entries, i, i+1)
	if len(c.entries) == 0 {
		s.chunks = slices.Delete(s.chunks, n, n+1)
		return
	}
	// Joining small neighbours keeps the chunks in proportion to the slots.
	for _, k := range [2]int{n, n - 1} {
		if k < 0 || k+1 >= len(s.chunks) || len(s.chunks[k].entries)+len(s.chunks[k+1].entries) > blockSize {
			continue
		}
		a, b := &s.chunks[k], &s.chunks[k+1]
		a.entries, a.units = append(a.entries, b.entries...), addSat(a.units, b.units)
		s.chunks = slices.Delete(s.chunks, k+1, k+2)
	}
}

// dropSlots drops the slots that have ended.
func (s *State) dropSlots(limit int64) {
	if s.Slots == nil {
		s.dropFirst(after(s.Entries, limit))
		return
	}
	b := s.Slots
	limit -= b.moved
	n := sort.Search(len(b.chunks), func(i int) bool { return b.chunks[i].last().At > limit })
	for _, c := range b.chunks[:n] {
		b.forget(c.entries)
	}
	b.chunks = slices.Delete(b.chunks, 0, n)
	if len(b.chunks) > 0 {
		c := &b.chunks[0]
		dead := c.entries[:after(c.entries, limit)]
		c.units -= sum(dead)
		b.forget(dead)
		c.entries = slices.Delete(c.entries, 0, len(dead))
	}
	s.loosen()
}

func (s *Slots) forget(es []Entry) {
	for i := range es {
		delete(s.starts, es[i].ID)
	}
}

// loosen moves the slots back to State.Entries once they are few.
func (s *State) loosen() {
	if b := s.Slots; len(b.starts) <= blockSize {
		s.Slots = nil
		s.Entries = b.all()
	}
}

func (s *Slots) all() []Entry {
	var es []Entry
	for i := range s.chunks {
		es = append(es, s.chunks[i].entries...)
	}
	for i := range es {
		es[i].At += s.moved
	}
	return es
}

// AllEntries returns Entries, or what stands for them in Slots. The caller must not change them.
func (s *State) AllEntries() []Entry {
	if s.Slots != nil {
		return s.Slots.all()
	}
	return s.Entries
}

// GatherSlots sorts the slots in Entries of a state that was read from outside, and reports whether their ids differ.
func GatherSlots(s *State) bool {
	slices.SortFunc(s.Entries, bySlot)
	ids := make(map[string]bool, len(s.Entries))
	for i := range s.Entries {
		ids[s.Entries[i].ID] = true
	}
	unique := len(ids) == len(s.Entries)
	if unique && len(s.Entries) > looseMax {
		s.Slots, s.Entries = newSlots(s.Entries), nil
	}
	return unique
}
