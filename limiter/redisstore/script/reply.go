package script

import (
	"errors"

	"sluice/limiter"
)

// errReply says that the script's answer was not of the form that batch.lua
// describes. It cannot happen while script and Go come from one build.
var errReply = errors.New("malformed reply of the script")

// Decode gives the answers of one script call to the requests that it carried, in
// order: each gets its Result or its Err.
func Decode(reply string, requests []*Request) {
	in := reader{s: reply}
	in.length()
	now := in.integer()
	for _, r := range requests {
		switch kind := in.integer(); kind {
		case kindPlain, kindDelayed:
			r.decodePlain(&in, now, kind == kindDelayed)
		case kindRefused:
			r.Err = refusal(in.text())
		default:
			r.decodeFull(&in, kind)
		}
		if in.bad {
			r.Err = &limiter.StoreError{Cause: limiter.CauseInternal, Unknown: true, Err: errReply}
		}
	}
}

// Kinds of answers; see batch.lua.
const (
	kindAnswered  = 0
	kindStored    = 1
	kindRefused   = 2
	kindCommitted = 3
	kindPlain     = 4
	kindDelayed   = 5
)

// decodeFull reads the full answer of a request.
func (r *Request) decodeFull(in *reader, kind int64) {
	stored := kind == kindStored || kind == kindCommitted
	r.Committed, r.Booked = kind == kindCommitted, r.Booked[:0]
	r.Result = limiter.Result{Allowed: true, Replayed: stored, At: in.integer(), Limits: r.Result.Limits[:0]}
	for _, m := range r.most {
		d := limiter.Decision{Limit: m.limit, Rate: m.rate}
		d.Allowed = in.integer() == 1
		room := in.integer()
		d.RetryAfter = in.integer()
		d.Reset = in.integer()
		d.Delay = in.integer()
		d.Refunded = in.integer()
		if m.kept {
			d.Limit, d.Delay = d.Delay, 0
		}
		if stored {
			d.Limit, d.Rate = in.integer(), in.integer()
		}
		d.SetRoom(room)
		readDelay(&d, m.ban, stored)
		if m.periods {
			shorten(&d)
		}
		if r.part {
			r.Booked = append(r.Booked, Booking{At: in.integer(), Weight: in.integer(), Base: in.integer()})
		}
		r.Result.Allowed = r.Result.Allowed && d.Allowed
		r.Result.Limits = append(r.Result.Limits, d)
	}
}

// decodePlain reads the short answer of a plain take in a call at time now.
func (r *Request) decodePlain(in *reader, now int64, delayed bool) {
	r.Committed, r.Booked = false, r.Booked[:0]
	r.Result = limiter.Result{Allowed: true, At: now, Limits: r.Result.Limits[:0]}
	for _, m := range r.most {
		retry := in.integer()
		d := limiter.Decision{Allowed: retry == 0, Limit: m.limit, Rate: m.rate, RetryAfter: retry}
		d.SetRoom(in.integer())
		d.Reset = in.integer()
		if m.periods {
			shorten(&d)
		}
		r.Result.Allowed = r.Result.Allowed && d.Allowed
		r.Result.Limits = append(r.Result.Limits, d)
	}
	if delayed {
		for i := range r.Result.Limits {
			d := &r.Result.Limits[i]
			d.Delay = in.integer()
			if r.most[i].kept {
				room := d.Limit - d.Used
				d.Limit, d.Delay = d.Delay, 0
				d.SetRoom(room)
				continue
			}
			readDelay(d, r.most[i].ban, false)
		}
	}
}

// shorten changes the waits of a decision on a limit with PerPeriod to waits until its period's end.
func shorten(d *limiter.Decision) {
	d.RetryAfter, d.Reset = limiter.PeriodWait(d.RetryAfter), limiter.PeriodWait(d.Reset)
}

// readDelay reads the value in the place of a delay: it may say that a ban began, or how many units of a held-back take
// would pass.
func readDelay(d *limiter.Decision, ban, stored bool) {
	switch {
	case ban:
		d.BanBegan, d.Delay = d.Delay == 1 && !stored, 0
	case d.Delay <= held:
		d.Held, d.Remaining, d.Delay = true, held-d.Delay, 0
	}
}

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

// refusal is the error of one request inside a call that otherwise succeeded:
// it changed nothing.
func refusal(msg string) error {
	return &limiter.StoreError{Cause: CauseOf(msg), Err: errors.New(TrimTrace(msg))}
}
