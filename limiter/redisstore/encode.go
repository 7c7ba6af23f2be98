package redisstore

import (
	"encoding/binary"

	"sluice/limiter"
)

// firstHit is the code of a fixed_window that starts at its first hit; other
// algorithms go by their limiter.Algorithm number. See exact.lua.
const firstHit = 10

// looks is added to the code of an ask that looks in a take, keeps to that of an
// operation whose record is kept for a time of its own. See batch.lua.
const looks, keeps = 16, 16

// plain is the operation of a take that nothing but its asks describes, to which
// their number is added. See batch.lua.
const plain = 32

// op is one request on its way: packed when it is accepted, so that the
// caller's memory is not read again, and with room for its answer.
type op struct {
	frag  []byte   // its elements of the flat array that batch.lua describes
	elems int      // how many
	keys  []string // its part of KEYS
	most  []most   // of each ask
	slot  int      // cluster slot of all its keys; 0 on a single node
	part  bool     // of a request that spans slots: its answer says what it booked
	plain bool     // described by its asks alone; see plain

	res       limiter.Result
	booked    []booking // of each ask, if part
	committed bool      // res is a stored answer that is committed
	err       error
}

// most is Limit and Rate of a decision.
type most struct{ limit, rate int64 }

func mostOf(l *limiter.Limit) most { return most{limit: l.Capacity(), rate: l.Rate()} }

// booking is what one ask of a part has put into its bucket.
type booking struct {
	at     int64 // the time it was booked at, ms
	weight int64 // units; 0 for nothing, or for a lease that was held before
	base   int64 // the level before it in 1/window, of a bucket that drains
}

// pack fills o from req. req is valid (Request.Check).
func (o *op) pack(names naming, req *limiter.Request) {
	o.part = false
	if o.plain = isPlain(req); o.plain {
		o.writePlain(names, req)
		return
	}
	recorded := hasRecord(req)
	mark := []byte{0}
	if recorded {
		mark[0] = 1
	}
	o.write(names, req, mark, recorded, "")
}

// packPart fills o from a part of a request that spans slots. whole names that
// request in the part's record, "" if it has none. name is what the part books
// under, or gives back by; "" if it does neither.
func (o *op) packPart(names naming, req *limiter.Request, whole, name string) {
	o.part, o.plain = true, false
	o.write(names, req, appendString(nil, whole), whole != "", name)
	if req.Op == opUndo {
		o.keys = append(o.keys, names.prefix+"{"+req.Asks[0].Key.Tag()+"}:g:"+name)
	}
}

// isPlain reports whether asks alone describe the request: a take without an ID
// in which nothing only looks. A lease has two keys, so it is not plain either.
func isPlain(req *limiter.Request) bool {
	if req.Op != limiter.OpTake || req.ID != "" {
		return false
	}
	for i := range req.Asks {
		if req.Asks[i].Look || req.Asks[i].Limit.Algorithm == limiter.Concurrency {
			return false
		}
	}
	return true
}

func (o *op) writePlain(names naming, req *limiter.Request) {
	o.frag, o.keys, o.most = o.frag[:0], o.keys[:0], o.most[:0]
	o.err = nil
	b := appendInt(o.frag, plain+int64(len(req.Asks)))
	for i := range req.Asks {
		a := &req.Asks[i]
		b = appendInt(appendLimit(b, &a.Limit, 0), a.Weight)
		o.keys = append(o.keys, names.bucket(a.Key))
		o.most = append(o.most, mostOf(&a.Limit))
	}
	o.frag, o.elems = b, 1+5*len(req.Asks)
}

// appendLimit appends the code of a limit's algorithm, plus the given mark, its
// count, window and extra.
func appendLimit(b []byte, l *limiter.Limit, mark int64) []byte {
	code, extra := int64(l.Algorithm), l.Burst
	switch l.Algorithm {
	case limiter.FixedWindow:
		extra = l.Anchor
		if l.Align == limiter.AlignFirstHit {
			code = firstHit
		}
	case limiter.SlidingWindowBuckets:
		extra = l.Buckets
	}
	b = appendInt(b, code+mark)
	b = appendInt(b, l.Count)
	b = appendInt(b, l.Window)
	return appendInt(b, extra)
}

func (o *op) write(names naming, req *limiter.Request, mark []byte, recorded bool, name string) {
	o.frag, o.keys, o.most = o.frag[:0], o.keys[:0], o.most[:0]
	o.err = nil
	keep := recorded && req.Keep > 0
	verb := int64(req.Op)
	if keep {
		verb += keeps
	}
	b := appendInt(o.frag, verb)
	b = appendString(b, req.ID)
	b = append(b, mark...)
	b = appendInt(b, int64(len(req.Asks)))
	if keep {
		b = appendInt(b, req.Keep)
	}
	if o.part {
		b = appendString(b, name)
	}
	for i := range req.Asks {
		a := &req.Asks[i]
		mark := int64(0)
		if a.Look && (req.Op == limiter.OpTake || req.Op == limiter.OpSettle || req.Op == opCommit) {
			mark = looks
		}
		b = appendLimit(b, &a.Limit, mark)
		b = appendInt(b, a.Weight)
		key := names.bucket(a.Key)
		o.keys = append(o.keys, key)
		if a.Limit.Algorithm == limiter.Concurrency {
			o.keys = append(o.keys, key+":w")
		}
		o.most = append(o.most, mostOf(&a.Limit))
	}
	if recorded {
		o.keys = append(o.keys, recordKey(names.prefix, req))
	}
	o.frag, o.elems = b, 4+5*len(req.Asks)
	if keep {
		o.elems++
	}
	if o.part {
		o.elems++
	}
}

// hasRecord reports whether the request reads or writes a record; see
// limiter/record.go.
func hasRecord(req *limiter.Request) bool {
	switch {
	case req.ID == "":
		return false
	case req.Op == limiter.OpRefund || req.Op == limiter.OpSettle:
		return true
	case req.Op != limiter.OpTake && req.Op != limiter.OpCharge:
		return false
	}
	for i := range req.Asks {
		if req.Asks[i].Limit.Algorithm != limiter.Concurrency {
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

// headElems is how many elements appendHeader begins with.
const headElems = 2

// appendHeader starts the flat array of a call: its length, which setLength
// corrects, and the clock.
func appendHeader(b []byte, clock func() int64) []byte {
	b = append(b, 0xdd, 0, 0, 0, headElems)
	if clock == nil {
		return append(b, 0, 0)
	}
	return appendInt(append(b, 1), clock())
}

// setLength says how many elements the array has that appendHeader started.
func setLength(b []byte, elems int) {
	binary.BigEndian.PutUint32(b[1:], uint32(elems)) //nolint:gosec // a batch is far below 2^32 elements
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

// appendString appends s, of at most 255 bytes, in MessagePack.
func appendString(b []byte, s string) []byte {
	if len(s) < 32 {
		b = append(b, 0xa0|byte(len(s)))
	} else {
		b = append(b, 0xd9, byte(len(s))) //nolint:gosec // at most 64, by Request.Check
	}
	return append(b, s...)
}
