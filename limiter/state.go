package limiter

import "math/bits"

// State is the stored consumption of one bucket. The zero value is a bucket
// that nobody has used. Whoever holds the bucket's lock owns it; it is not safe
// for concurrent use.
//
// What the fields hold depends on the kind:
//
//	fw  At: last change (first_hit: start of the window); Used: units; Scale: 1 if the bucket keeps a limit, Prev
//	sc  At: last change; Used, Prev: units in At's window and the one before
//	lv  At: last change; Used: level at At, scaled by Scale = window_ms
//	ga  At, Used, Scale = count: the theoretical arrival time is At + Used/Scale ms
//	sl  Entries: time and weight, oldest first, or a block of some (logblock.go); Used: all in blocks, less the blocks
//	sb  At: last change; Scale = window_ms, Prev = sub-windows; Entries: index and units
//	cc  Entries: start, weight and id of each slot, oldest first; or Slots (slotchunk.go)
//	bn  At: first counted denial; Used: counted ones; Prev: end of the last ban, Scale: its length
type State struct {
	Exists bool
	// Born is the number that the store gave the bucket when it began, also after a reset. It distinguishes a bucket
	// from earlier buckets with the same key.
	Born    uint32
	At      int64
	Used    int64
	Prev    int64
	Scale   int64
	Entries []Entry
	Slots   *Slots
}

// Entry is one element of a log, a sub-window or a slot.
type Entry struct {
	At     int64
	Weight int64
	ID     string
}

// newest is the time of the last entry, or At where there is none.
func (s *State) newest() int64 {
	if n := len(s.Entries); n > 0 {
		return s.Entries[n-1].At
	}
	if s.Slots != nil {
		return s.Slots.chunks[len(s.Slots.chunks)-1].last().At + s.Slots.moved
	}
	return s.At
}

// dropOlder removes the leading entries whose At is at most limit.
func (s *State) dropOlder(limit int64) {
	i := 0
	for i < len(s.Entries) && s.Entries[i].At <= limit {
		i++
	}
	s.dropFirst(i)
}

// manyEntries is how many entries are not moved for each that is dropped; append moves them once in a while.
const manyEntries = 256

// dropFirst removes the first n entries.
func (s *State) dropFirst(n int) {
	switch {
	case n == 0:
	case len(s.Entries)-n > manyEntries:
		clear(s.Entries[:n])
		s.Entries = s.Entries[n:]
	default:
		left := copy(s.Entries, s.Entries[n:])
		clear(s.Entries[left:])
		s.Entries = s.Entries[:left]
	}
}

// shift moves every entry by delta.
func (s *State) shift(delta int64) {
	for i := range s.Entries {
		s.Entries[i].At += delta
	}
}

const maxInt64 = int64(^uint64(0) >> 1)

// mulSat multiplies two non-negative numbers and stops at the largest int64.
func mulSat(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > uint64(maxInt64) {
		return maxInt64
	}
	return int64(lo)
}

// addSat adds two non-negative numbers and stops at the largest int64.
func addSat(a, b int64) int64 {
	if a > maxInt64-b {
		return maxInt64
	}
	return a + b
}

// addExact adds two non-negative numbers and stops at MaxExact, the most that
// any store holds. Only unconditional charges can get there.
func addExact(a, b int64) int64 {
	if a > MaxExact-b {
		return MaxExact
	}
	return a + b
}

// floorDiv divides rounding down; b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// ceilDiv divides rounding up; b > 0.
func ceilDiv(a, b int64) int64 {
	return -floorDiv(-a, b)
}

// rescale converts v from units of 1/from to units of 1/to, rounding up. Where
// the remainder's product would pass MaxExact a started unit counts as whole.
func rescale(v, from, to int64) int64 {
	if from == to || from == 0 || v == 0 {
		return v
	}
	whole, rest := v/from, v%from
	out := min(mulSat(whole, to), MaxExact)
	if rest == 0 {
		return out
	}
	if rest > MaxExact/to {
		return addExact(out, to)
	}
	return addExact(out, ceilDiv(rest*to, from))
}
