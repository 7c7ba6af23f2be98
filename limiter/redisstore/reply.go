package redisstore

import (
	"errors"
	"strings"

	"sluice/limiter"
)

// errReply says that the script's answer was not of the form that batch.lua
// describes. It cannot happen while script and Go come from one build.
var errReply = errors.New("malformed reply of the script")

// reader reads MessagePack. After an error everything reads as zero.
type reader struct {
	s   string
	bad bool
}

// next returns the next n bytes as a big-endian number.
func (r *reader) next(n int) uint64 {
	if r.bad || len(r.s) < n {
		r.bad = true
		return 0
	}
	var u uint64
	for i := range n {
		u = u<<8 | uint64(r.s[i])
	}
	r.s = r.s[n:]
	return u
}

// integer reads one integer.
func (r *reader) integer() int64 {
	c := r.next(1)
	switch {
	case c < 0x80:
		return int64(c)
	case c >= 0xe0:
		return int64(int8(c)) //nolint:gosec // a negative fixint
	}
	switch c {
	case 0xcc:
		return int64(r.next(1)) //nolint:gosec // one byte
	case 0xcd:
		return int64(r.next(2)) //nolint:gosec // two bytes
	case 0xce:
		return int64(r.next(4)) //nolint:gosec // four bytes
	case 0xcf, 0xd3:
		return int64(r.next(8)) //nolint:gosec // the script's numbers stay below 2^53
	case 0xd0:
		return int64(int8(r.next(1))) //nolint:gosec // sign extension
	case 0xd1:
		return int64(int16(r.next(2))) //nolint:gosec // sign extension
	case 0xd2:
		return int64(int32(r.next(4))) //nolint:gosec // sign extension
	}
	r.bad = true
	return 0
}

// text reads one string.
func (r *reader) text() string {
	c := r.next(1)
	n := uint64(0)
	switch {
	case c >= 0xa0 && c < 0xc0:
		n = c & 0x1f
	case c == 0xd9:
		n = r.next(1)
	case c == 0xda:
		n = r.next(2)
	default:
		r.bad = true
	}
	if r.bad || uint64(len(r.s)) < n {
		r.bad = true
		return ""
	}
	out := r.s[:n]
	r.s = r.s[n:]
	return out
}

// length reads the head of an array.
func (r *reader) length() int {
	switch c := r.next(1); {
	case c >= 0x90 && c < 0xa0:
		return int(c & 0xf) //nolint:gosec // four bits
	case c == 0xdc:
		return int(r.next(2)) //nolint:gosec // two bytes
	case c == 0xdd:
		return int(r.next(4)) //nolint:gosec // four bytes
	}
	r.bad = true
	return 0
}

// unpack hands the answers of one script call to the requests that it carried,
// in order.
func unpack(reply string, ops []*op) {
	r := reader{s: reply}
	r.length()
	now := r.integer()
	for _, o := range ops {
		o.unpack(&r, now)
	}
}

// Kinds of answers; see batch.lua.
const (
	kindStored    = 1
	kindError     = 2
	kindCommitted = 3
	kindPlain     = 4
	kindDelayed   = 5
)

// unpack reads the answer of one request of a call at time now.
func (o *op) unpack(r *reader, now int64) {
	kind := r.integer()
	switch kind {
	case kindPlain, kindDelayed:
		o.unpackPlain(r, now, kind == kindDelayed)
		return
	case kindError:
		if msg := r.text(); !r.bad {
			o.err = scriptError(msg)
			return
		}
	}
	o.res.Replayed, o.committed, o.booked = kind == kindStored || kind == kindCommitted, kind == kindCommitted, o.booked[:0]
	o.res.At = r.integer()
	o.res.Allowed = true
	o.res.Limits = o.res.Limits[:0]
	for _, m := range o.most {
		d := limiter.Decision{Limit: m.limit, Rate: m.rate}
		d.Allowed = r.integer() == 1
		d.Remaining = r.integer()
		d.RetryAfter = r.integer()
		d.Reset = r.integer()
		d.Delay = r.integer()
		d.Refunded = r.integer()
		if o.res.Replayed {
			d.Limit, d.Rate = r.integer(), r.integer()
		}
		if o.part {
			o.booked = append(o.booked, booking{at: r.integer(), weight: r.integer(), base: r.integer()})
		}
		o.res.Allowed = o.res.Allowed && d.Allowed
		o.res.Limits = append(o.res.Limits, d)
	}
	o.check(r)
}

// unpackPlain reads the short answer of a plain take.
func (o *op) unpackPlain(r *reader, now int64, delayed bool) {
	o.committed, o.booked = false, o.booked[:0]
	o.res = limiter.Result{Allowed: true, At: now, Limits: o.res.Limits[:0]}
	for _, m := range o.most {
		retry := r.integer()
		d := limiter.Decision{Allowed: retry == 0, Limit: m.limit, Rate: m.rate, RetryAfter: retry}
		d.Remaining = r.integer()
		d.Reset = r.integer()
		o.res.Allowed = o.res.Allowed && d.Allowed
		o.res.Limits = append(o.res.Limits, d)
	}
	if delayed {
		for i := range o.res.Limits {
			o.res.Limits[i].Delay = r.integer()
		}
	}
	o.check(r)
}

// check makes an answer that could not be read an error.
func (o *op) check(r *reader) {
	if r.bad {
		o.err = &limiter.StoreError{Cause: limiter.CauseInternal, Unknown: true, Err: errReply}
	}
}

// scriptError is the error of one request inside a call that otherwise went
// through: it changed nothing.
func scriptError(msg string) error {
	cause := causeOfReply(msg)
	if strings.HasPrefix(msg, "BADSTATE") {
		cause = limiter.CauseBadState
	}
	return &limiter.StoreError{Cause: cause, Err: errors.New(trimTrace(msg))}
}

// trimTrace cuts off where in the script an error came from.
func trimTrace(msg string) string {
	if i := strings.Index(msg, " script: "); i >= 0 {
		return msg[:i]
	}
	return msg
}
