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

// op is one request on its way: packed when it is accepted, so that the
// caller's memory is not read again, and with room for its answer.
type op struct {
	frag  []byte   // its elements of the flat array that batch.lua describes
	elems int      // how many
	keys  []string // its part of KEYS
	caps  []int64  // Decision.Limit of each ask
	slot  int      // cluster slot of all its keys; 0 on a single node
	part  bool     // of a request that spans slots: its answer says what it booked

	res       limiter.Result
	booked    []booking // of each ask, if part
	committed bool      // res is a stored answer that is committed
	err       error
}

// booking is what one ask of a part has put into its bucket.
type booking struct {
	at     int64 // the time it was booked at, ms
	weight int64 // units; 0 for nothing, or for a lease that was held before
	base   int64 // the level before it in 1/window, of a bucket that drains
}

// pack fills o from req. req is valid (Request.Check).
func (o *op) pack(names naming, req *limiter.Request) {
	o.part = false
	recorded := hasRecord(req)
	mark := []byte{0}
	if recorded {
		mark[0] = 1
	}
	o.write(names, req, mark, recorded, nil)
}

// packPart fills o from a part of a request that spans slots. whole names that
// request in the part's record, "" if it has none; undo is what an opUndo gives
// back of each ask.
func (o *op) packPart(names naming, req *limiter.Request, whole string, undo []booking) {
	o.part = true
	o.write(names, req, appendString(nil, whole), whole != "", undo)
}

func (o *op) write(names naming, req *limiter.Request, mark []byte, recorded bool, undo []booking) {
	o.frag, o.keys, o.caps = o.frag[:0], o.keys[:0], o.caps[:0]
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
	for i := range req.Asks {
		a := &req.Asks[i]
		code, extra := int64(a.Limit.Algorithm), a.Limit.Burst
		switch a.Limit.Algorithm {
		case limiter.FixedWindow:
			extra = a.Limit.Anchor
			if a.Limit.Align == limiter.AlignFirstHit {
				code = firstHit
			}
		case limiter.SlidingWindowBuckets:
			extra = a.Limit.Buckets
		}
		if a.Look && (req.Op == limiter.OpTake || req.Op == limiter.OpSettle || req.Op == opCommit) {
			code += looks
		}
		b = appendInt(b, code)
		b = appendInt(b, a.Limit.Count)
		b = appendInt(b, a.Limit.Window)
		b = appendInt(b, extra)
		if undo == nil {
			b = appendInt(b, a.Weight)
		} else {
			b = appendInt(b, undo[i].weight)
			b = appendInt(b, undo[i].at)
			b = appendInt(b, undo[i].base)
		}
		key := names.bucket(a.Key)
		o.keys = append(o.keys, key)
		if a.Limit.Algorithm == limiter.Concurrency {
			o.keys = append(o.keys, key+":w")
		}
		o.caps = append(o.caps, a.Limit.Capacity())
	}
	if recorded {
		o.keys = append(o.keys, recordKey(names.prefix, req))
	}
	o.frag, o.elems = b, 4+5*len(req.Asks)+2*len(undo)
	if keep {
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

// appendHeader starts the flat array of a call: its length and the clock.
func appendHeader(b []byte, elems int, clock func() int64) []byte {
	b = append(b, 0xdd)
	b = binary.BigEndian.AppendUint32(b, uint32(elems+2)) //nolint:gosec // a batch is far below 2^32 elements
	if clock == nil {
		return append(b, 0, 0)
	}
	return appendInt(append(b, 1), clock())
}

// appendInt appends n in MessagePack.
func appendInt(b []byte, n int64) []byte {
	switch u := uint64(n); { //nolint:gosec // the two's complement is what MessagePack wants
	case n >= 0 && n < 1<<7:
		return append(b, byte(u))
	case n >= 0 && n < 1<<16:
		return append(b, 0xcd, byte(u>>8), byte(u))
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
