package script

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"

	"sluice/limiter"
)

// Request is one request on its way to the script and back: encoded when it is
// accepted, so that the caller's memory is not read again, and with room for its
// answer. A used one is encoded again without allocating. It is not safe for
// concurrent use.
type Request struct {
	// Keys is its part of KEYS.
	Keys []string
	// Slot is for the caller: the cluster slot of all Keys, 0 on a single node.
	Slot int
	// Impatient, Late and Gone are copied from the encoded request.
	Impatient, Late bool
	Gone            *atomic.Bool

	// Result is the answer, unless Err says why there is none.
	Result limiter.Result
	Err    error
	// Booked holds, for a part, what each ask has booked in its bucket.
	Booked []Booking
	// Committed: Result is a stored answer that is committed.
	Committed bool

	elements []byte // its elements of the flat array that batch.lua describes
	count    int    // how many
	moves    []byte // the moves that precede the asks, for limits that have a Former
	moved    int    // how many
	most     []most // for each ask
	part     bool   // of a request that spans slots: its answer says what it booked
	spans    bool   // one of its limits spans regions
	notAfter int64  // the earliest NotAfter of its asks, 0 if none has one
	high     []covered
	plain    bool // the asks describe the request completely; see encodePlain
}

// Names says how keys are called in Redis.
type Names struct {
	// Prefix starts each name.
	Prefix string
	// Bucket is the name of a key's bucket.
	Bucket func(limiter.Key) string
}

// Of is the name of an ask's bucket. A bucket that spans regions has another name, since its value also holds sums.
func (n *Names) Of(a *limiter.Ask) string {
	if a.Spans {
		return n.Bucket(a.Key) + SpansSuffix
	}
	return n.Bucket(a.Key)
}

// Spans reports whether a limit of the request spans regions, so that its call needs the set of changed buckets.
func (r *Request) Spans() bool { return r.spans }

// NotAfter is until when the request may be decided, ms on the clock of the server; 0 for always.
func (r *Request) NotAfter() int64 { return r.notAfter }

// covered is an ask that a high-water mark covers. key is the position of its bucket in Keys.
type covered struct {
	key  int
	mark *limiter.HighWater
}

// moveElements is how many elements a move has.
const moveElements = 4

// move writes that what is spent in the former bucket of an ask moves, if it has one. The ask's key is the last of
// Keys. That of the former bucket is not among them: Redis Cluster would refuse the call while the slot is on its way
// to another server and only one of the two exists.
func (r *Request) move(names *Names, a *limiter.Ask) {
	if a.Former == nil {
		return
	}
	limits := appendInt(appendLimit([]byte{0x9a}, a.Former, 0), 0) // an array of ten
	limits = appendInt(appendLimit(limits, &a.Limit, 0), 0)
	b := appendInt(appendInt(r.moves, int64(OpMove)), int64(len(r.Keys)))
	r.moves = appendString(appendString(b, names.Bucket(a.FormerKey())), string(limits))
	r.moved += moveElements
}

// hurry takes over Ask.NotAfter and Ask.HighWater. The ask's key is the last of Keys.
func (r *Request) hurry(a *limiter.Ask) {
	if a.HighWater != nil {
		r.high = append(r.high, covered{len(r.Keys), a.HighWater})
	}
	if a.NotAfter > 0 && (r.notAfter == 0 || a.NotAfter < r.notAfter) {
		r.notAfter = a.NotAfter
	}
}

// most holds Limit and Rate of a decision, and whether the decision is about a ban, about a limit that the bucket may
// lower, or about a limit with PerPeriod.
type most struct {
	limit, rate        int64
	ban, kept, periods bool
}

// mostOf returns them.
func mostOf(l *limiter.Limit) most {
	return most{limit: l.Capacity(), rate: l.Rate(), ban: l.Algorithm == limiter.Ban,
		kept: l.Kept != limiter.KeptIgnored, periods: l.PerPeriod}
}

// Booking is what one ask of a part has booked in its bucket.
type Booking struct {
	At     int64 // the time it was booked at, ms
	Weight int64 // units; 0 for nothing, or for a lease that was held before
	Base   int64 // the level before it in 1/window, of a bucket that drains
}

// Encode fills r from req, which is valid (limiter.Request.Check).
func (r *Request) Encode(names *Names, req *limiter.Request) {
	r.part, r.spans, r.notAfter, r.high, r.moves, r.moved = false, false, 0, r.high[:0], r.moves[:0], 0
	r.Impatient, r.Late, r.Gone = req.Impatient, req.Late, req.Gone
	if r.plain = r.encodePlain(names, req); r.plain {
		return
	}
	recorded := HasRecord(req)
	mark := []byte{0}
	if recorded {
		mark[0] = 1
	}
	r.encode(names, req, mark, recorded, "")
}

// EncodePart fills r from a part of a request that spans slots. whole names that
// request in the part's record, "" if it has none. name is what the part books
// under, or is undone by; "" if it does neither.
func (r *Request) EncodePart(names *Names, req *limiter.Request, whole, name string) {
	r.part, r.plain, r.spans, r.notAfter = true, false, false, 0
	r.Impatient, r.Late, r.Gone = req.Impatient, false, nil
	r.encode(names, req, appendString(nil, whole), whole != "", name)
	if req.Op == OpUndo {
		r.Keys = append(r.Keys, names.Prefix+"{"+req.Asks[0].Key.Tag()+"}:g:"+name)
	}
}

// encodePlain writes the short form of a plain request, which its asks alone describe: a take without an ID in which no
// ask only looks or holds a slot. It returns false for all other requests.
func (r *Request) encodePlain(names *Names, req *limiter.Request) bool {
	if req.Op != limiter.OpTake || req.ID != "" {
		return false
	}
	r.Keys, r.most, r.Err = r.Keys[:0], r.most[:0], nil
	b := appendInt(r.elements[:0], plain+int64(len(req.Asks)))
	for i := range req.Asks {
		a := &req.Asks[i]
		if a.Look || a.Limit.Algorithm.Traits().Slots {
			return false
		}
		b = appendInt(appendLimit(b, &a.Limit, r.spanMark(a, req.Op)), weightOf(a))
		r.Keys = append(r.Keys, names.Of(a))
		r.move(names, a)
		r.hurry(a)
		r.most = append(r.most, mostOf(&a.Limit))
	}
	r.elements, r.count = b, 1+5*len(req.Asks)
	return true
}

// appendLimit appends the code of a limit's algorithm, plus the given mark, its
// count, window and extra.
func appendLimit(b []byte, l *limiter.Limit, mark int64) []byte {
	if l.PerPeriod {
		stored := l.Stored()
		l = &stored
	}
	extra := l.Burst
	switch l.Algorithm.Traits().Setting {
	case limiter.SettingAlign:
		extra = l.Anchor
	case limiter.SettingBuckets:
		extra = l.Buckets
	}
	if l.Algorithm == limiter.Ban {
		extra = l.Burst<<4 + l.Buckets
	}
	b = appendInt(b, codeOf(l)+mark)
	count := l.Count
	if l.Kept == limiter.KeptSet {
		count = -1 - count
	}
	b = appendInt(b, count)
	b = appendInt(b, l.Window)
	return appendInt(b, extra)
}

func (r *Request) encode(names *Names, req *limiter.Request, mark []byte, recorded bool, name string) {
	r.elements, r.Keys, r.most, r.high = r.elements[:0], r.Keys[:0], r.most[:0], r.high[:0]
	r.moves, r.moved, r.Err = r.moves[:0], 0, nil
	keep := recorded && (req.Keep > 0 || req.Brief || req.Attempt != 0)
	verb := int64(req.Op)
	if keep {
		verb += keeps
	}
	b := appendInt(r.elements, verb)
	b = appendString(b, req.ID)
	b = append(b, mark...)
	b = appendInt(b, int64(len(req.Asks)))
	switch {
	case keep && req.Brief:
		b = appendInt(appendInt(b, -limiter.RecordBrief), req.Attempt)
	case keep:
		b = appendInt(appendInt(b, req.Keep), req.Attempt)
	}
	if r.part {
		b = appendString(b, name)
	}
	for i := range req.Asks {
		a := &req.Asks[i]
		mark := int64(0)
		if a.Look && (req.Op == limiter.OpTake || req.Op == limiter.OpSettle || req.Op == OpCommit) {
			mark = looks
		}
		b = appendLimit(b, &a.Limit, mark+r.spanMark(a, req.Op))
		b = appendInt(b, weightOf(a))
		key := names.Of(a)
		r.Keys = append(r.Keys, key)
		r.move(names, a)
		r.hurry(a)
		if a.Limit.Algorithm.Traits().Slots {
			r.Keys = append(r.Keys, key+":w")
		}
		r.most = append(r.most, mostOf(&a.Limit))
	}
	if recorded {
		r.Keys = append(r.Keys, recordKey(names.Prefix, req))
	}
	r.count = 4 + 5*len(req.Asks)
	if req.Op == limiter.OpApply || req.Op == limiter.OpRestore {
		b = appendSums(b, req.Sums)
		r.Keys = append(r.Keys, r.Keys[0]+":h")
		r.count += 8 + 2*len(req.Sums.Windows)
	}
	r.elements = b
	if keep {
		r.count += 2
	}
	if r.part {
		r.count++
	}
}

// spanMark returns the mark of an ask that spans regions, 0 for others. Only what spends is held back, and says of
// which limit it is.
func (r *Request) spanMark(a *limiter.Ask, op limiter.Op) int64 {
	if !a.Spans {
		return 0
	}
	r.spans = true
	if op == limiter.OpTake || op == limiter.OpPeek || op == limiter.OpCharge || op == OpCommit {
		return spans + guard*int64(min(a.Guard, limiter.GuardShare))
	}
	return spans
}

// weightOf returns the weight of an ask for the script. That of a ban, which has none, is the most that it
// may last.
func weightOf(a *limiter.Ask) int64 {
	if a.Limit.Algorithm == limiter.Ban {
		return a.Limit.Anchor
	}
	return a.Weight
}

// codeOf is the code of a limit's algorithm.
func codeOf(l *limiter.Limit) int64 {
	if l.Align > limiter.AlignFirstHit {
		return 0
	}
	if l.Kept != limiter.KeptIgnored {
		return keptCode + int64(l.Align)
	}
	return int64(codes[l.Algorithm][l.Align])
}

// HasRecord reports whether the request reads or writes a record; see
// limiter/record.go.
func HasRecord(req *limiter.Request) bool {
	switch {
	case req.ID == "":
		return false
	case req.Op == limiter.OpRefund || req.Op == limiter.OpSettle:
		return true
	case req.Op != limiter.OpTake && req.Op != limiter.OpCharge:
		return false
	}
	for i := range req.Asks {
		if !req.Asks[i].Limit.Algorithm.Traits().Slots {
			return true
		}
	}
	return false
}

// recordKey names the record of a request: its entity and its ID.
func recordKey(prefix string, req *limiter.Request) string {
	b := make([]byte, 0, 128)
	b = append(b, prefix...)
	b = append(b, '{')
	b = append(b, req.Asks[0].Key.Tag()...)
	b = append(b, "}:r:"...)
	return string(limiter.AppendValue(b, req.ID))
}

// Encode returns the arguments of the script call that carries the requests, in
// order: KEYS and ARGV[1]. clock, in ms since the epoch, replaces the server's clock;
// it is nil outside tests.
func Encode(requests []*Request, clock func() int64) (keys []string, arg []byte) {
	nkeys, size := 0, 16
	for _, r := range requests {
		nkeys, size = nkeys+len(r.Keys), size+len(r.moves)+len(r.elements)
	}
	keys = make([]string, 0, nkeys)
	arg = append(make([]byte, 0, size), 0xdd, 0, 0, 0, 0) // an array; its length comes last
	if clock == nil {
		arg = append(arg, 0, 0)
	} else {
		arg = appendInt(append(arg, 1), clock())
	}
	count := 2
	var seen shapes
	for _, r := range requests {
		keys = append(keys, r.Keys...)
		arg, count = append(arg, r.moves...), count+r.moved
		if r.plain && len(requests) > 1 {
			// Positions count from 1.
			if at := seen.find(r.elements, count+1); at > 0 {
				arg = appendInt(arg, int64(-at))
				count++
				continue
			}
		}
		arg = append(arg, r.elements...)
		count += r.count
	}
	binary.BigEndian.PutUint32(arg[1:], uint32(count)) //nolint:gosec // a call is far below 2^32 elements
	return keys, arg
}

// EncodeHigh returns ARGV[7] of the script call that carries the requests, nil if no high-water mark covers them.
func EncodeHigh(requests []*Request) []byte {
	var b []byte
	before, n := 0, 1
	for _, r := range requests {
		for _, c := range r.high {
			if b == nil {
				b = appendInt([]byte{0xdd, 0, 0, 0, 0}, c.mark.Margin)
			}
			b = appendInt(appendString(appendInt(b, int64(before+c.key)), c.mark.Name), c.mark.Life)
			n += 3
		}
		before += len(r.Keys)
	}
	if b != nil {
		binary.BigEndian.PutUint32(b[1:], uint32(n)) //nolint:gosec // a call is far below 2^32 elements
	}
	return b
}

// shapes remembers where the latest plain takes of a call stand that differ in
// limits or weights.
type shapes struct {
	at       [8]int // their positions in the array, 0 for none
	elements [8][]byte
	next     int
}

// find returns the position of a plain take with the same asks, or remembers that
// this one stands at pos and returns 0.
func (s *shapes) find(elements []byte, pos int) int {
	for i := range s.at {
		if s.at[i] > 0 && bytes.Equal(s.elements[i], elements) {
			return s.at[i]
		}
	}
	s.at[s.next], s.elements[s.next] = pos, elements
	s.next = (s.next + 1) % len(s.at)
	return 0
}

// appendInt appends n in MessagePack.
func appendInt(b []byte, n int64) []byte {
	switch u := uint64(n); { //nolint:gosec // the two's complement is what MessagePack wants
	case n >= 0 && n < 1<<7:
		return append(b, byte(u))
	case n >= 0 && n < 1<<16:
		return append(b, 0xcd, byte(u>>8), byte(u))
	case n >= -1<<5 && n < 0:
		return append(b, byte(u))
	case n >= -1<<15 && n < 0:
		return append(b, 0xd1, byte(u>>8), byte(u))
	case n >= 0 && n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(u)) //nolint:gosec // checked above
	default:
		return binary.BigEndian.AppendUint64(append(b, 0xd3), u)
	}
}

// appendString appends s, of at most 65,535 bytes, in MessagePack.
func appendString(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	case n < 1<<8:
		b = append(b, 0xd9, byte(n)) //nolint:gosec // checked above
	default: // the name of a bucket of many facts
		b = append(b, 0xda, byte(n>>8), byte(n)) //nolint:gosec // below 2^16
	}
	return append(b, s...)
}
