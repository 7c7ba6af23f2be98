package limiter

import (
	"encoding/binary"
	"slices"
)

// A log with many entries packs the entries in its middle into blocks, so that a decision reads a bounded part of it:
// the entries outside blocks, the sums of the blocks, and the entries of one or two blocks.
//
// A block is one element of State.Entries: At is the time of its newest entry, Weight the sum of its units (at most
// MaxExact), and ID its packed entries. An entry outside blocks has an empty ID. The packed form holds varints: the
// number of entries, the time from the oldest to the newest, and for each entry, newest first, the time to the next
// newer entry and its units.
const (
	// blockSize is the most entries of a block.
	blockSize = 128
	// mostJoins is how often a charge above the limit joins the two oldest entries.
	mostJoins = 512
	// looseMax is the number of newest entries outside blocks at which the older half of them becomes a block.
	looseMax = 2 * blockSize
)

// countRead, if a test sets it, is called with the number of entries of a log that a decision reads.
var countRead func(n int)

func read(n int) {
	if countRead != nil {
		countRead(n)
	}
}

func (e *Entry) isBlock() bool { return e.ID != "" }

// varints reads the numbers of a block.
type varints struct{ rest string }

func (v *varints) next() int64 {
	var n uint64
	for i := range len(v.rest) {
		b := v.rest[i]
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			v.rest = v.rest[i+1:]
			return int64(n)
		}
	}
	v.rest = ""
	return 0
}

// size returns the number of entries.
func (e *Entry) size() int64 {
	if !e.isBlock() {
		return 1
	}
	v := varints{e.ID}
	return v.next()
}

// oldest returns the time of the oldest entry.
func (e *Entry) oldest() int64 {
	if !e.isBlock() {
		return e.At
	}
	v := varints{e.ID}
	v.next()
	return e.At - v.next()
}

// newestFirst calls f for each entry, newest first, until it returns false.
func (e *Entry) newestFirst(f func(at, w int64) bool) {
	if !e.isBlock() {
		f(e.At, e.Weight)
		return
	}
	v := varints{e.ID}
	n, at := v.next(), e.At
	v.next()
	read(int(n))
	for range n {
		at -= v.next()
		if !f(at, v.next()) {
			return
		}
	}
}

// unpack returns the entries that are newer than limit, oldest first.
func (e *Entry) unpack(limit int64) []Entry {
	out := make([]Entry, 0, e.size())
	e.newestFirst(func(at, w int64) bool {
		if at > limit {
			out = append(out, Entry{At: at, Weight: w})
		}
		return at > limit
	})
	slices.Reverse(out)
	return out
}

// pack makes a block of one or more entries, oldest first.
func pack(es []Entry) Entry {
	newest := es[len(es)-1].At
	b := binary.AppendUvarint(make([]byte, 0, 16+4*len(es)), uint64(len(es)))
	b = binary.AppendUvarint(b, uint64(newest-es[0].At))
	out := Entry{At: newest}
	for _, e := range slices.Backward(es) {
		b = binary.AppendUvarint(b, uint64(newest-e.At))
		b = binary.AppendUvarint(b, uint64(e.Weight))
		newest, out.Weight = e.At, addExact(out.Weight, e.Weight)
	}
	out.ID = string(b)
	return out
}

// units returns the units of the entries that are newer than limit, the largest int64 if it cannot tell.
func (e *Entry) units(limit int64) int64 {
	switch {
	case !e.isBlock():
		return e.Weight
	case e.Weight == MaxExact:
		return maxInt64
	case e.oldest() > limit:
		return e.Weight
	}
	var n int64
	e.newestFirst(func(at, w int64) bool {
		if at > limit {
			n += w
		}
		return at > limit
	})
	return n
}

// split replaces the block at i by its entries that are newer than limit.
func (s *State) split(i int, limit int64) {
	es := s.Entries[i].unpack(limit)
	s.Used -= s.Entries[i].size() - 1
	s.Entries = slices.Replace(s.Entries, i, i+1, es...)
}

// gather makes a block of the older half of the newest entries outside blocks, if there are enough.
func (s *State) gather() {
	n := len(s.Entries)
	if n < looseMax {
		return
	}
	for i := n - looseMax; i < n; i++ {
		if s.Entries[i].isBlock() {
			return
		}
	}
	s.join(n-looseMax, n-looseMax+blockSize)
}

// join makes one block of the elements from i to before j. The sum of their units must be below MaxExact.
func (s *State) join(i, j int) {
	var es []Entry
	for k := i; k < j; k++ {
		if s.Entries[k].isBlock() {
			es = append(es, s.Entries[k].unpack(-MaxExact)...)
			s.Used -= s.Entries[k].size() - 1
		} else {
			es = append(es, s.Entries[k])
		}
	}
	read(len(es))
	s.Entries = slices.Replace(s.Entries, i, j, pack(es))
	s.Used += int64(len(es)) - 1
}

// joinOldest joins the two oldest entries n times, each time at the newer of their times: n + 1 become one. There are
// more than n.
func (s *State) joinOldest(n int64) {
	if n <= 0 {
		return
	}
	i, units := 0, int64(0)
	for ; s.Entries[i].size() <= n; i++ {
		units = addExact(units, s.Entries[i].Weight)
		n -= s.Entries[i].size()
		s.Used -= s.Entries[i].size() - 1
	}
	s.dropFirst(i)
	first := &s.Entries[0]
	if !first.isBlock() {
		first.Weight = addExact(first.Weight, units)
		return
	}
	es := first.unpack(-MaxExact)
	for _, e := range es[:n] {
		units = addExact(units, e.Weight)
	}
	es = es[n:]
	es[0].Weight = addExact(es[0].Weight, units)
	*first = pack(es)
	s.Used -= n
}

// thin joins the block at i, of which an entry was removed, with a neighbour if both together are small. The number of
// blocks thus stays in proportion to the number of entries.
func (s *State) thin(i int) {
	for _, k := range [2]int{i, i - 1} {
		if k < 0 || k+1 >= len(s.Entries) || !s.Entries[k].isBlock() || !s.Entries[k+1].isBlock() {
			continue
		}
		if s.Entries[k].size()+s.Entries[k+1].size() <= blockSize/2 {
			s.join(k, k+2)
		}
	}
}

// give gives back up to w units of the entry that was booked at a time, and reports whether there is one.
func (s *State) give(at, w int64) (units int64, found bool) {
	i, _ := slices.BinarySearchFunc(s.Entries, at, func(e Entry, at int64) int { return int(min(1, max(-1, e.At-at))) })
	if i == len(s.Entries) || s.Entries[i].oldest() > at {
		return 0, false
	}
	e := &s.Entries[i]
	if !e.isBlock() {
		if e.At != at {
			return 0, false
		}
		units = min(w, e.Weight)
		if e.Weight -= units; e.Weight == 0 {
			s.Entries = slices.Delete(s.Entries, i, i+1)
		}
		return units, true
	}
	es := e.unpack(-MaxExact)
	j := slices.IndexFunc(es, func(e Entry) bool { return e.At == at })
	if j < 0 {
		return 0, false
	}
	units = min(w, es[j].Weight)
	if es[j].Weight -= units; es[j].Weight > 0 {
		*e = pack(es)
		return units, true
	}
	s.removeFrom(i, slices.Delete(es, j, j+1))
	return units, true
}

// removeFrom makes es, which is one entry shorter, the entries of the block at i.
func (s *State) removeFrom(i int, es []Entry) {
	if len(es) == 0 {
		s.Entries = slices.Delete(s.Entries, i, i+1)
		return
	}
	s.Entries[i] = pack(es)
	s.Used--
	s.thin(i)
}

// IsLog reports whether decisions can leave s as the state of a sliding_window_log. It is for states from outside.
func IsLog(s *State) bool {
	last, inBlocks := -MaxExact-1, int64(0)
	for i := range s.Entries {
		e := &s.Entries[i]
		if e.isBlock() {
			if int64(len(e.ID))/2 < e.size() || e.size() < 1 {
				return false
			}
			es := e.unpack(-MaxExact - 1)
			if int64(len(es)) != e.size() || pack(es) != *e {
				return false
			}
			inBlocks += e.size() - 1
		}
		if e.oldest() <= last || e.At > MaxExact || e.Weight < 1 {
			return false
		}
		last = e.At
	}
	return inBlocks == s.Used
}
