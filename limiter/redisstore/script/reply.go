package script

import (
	"errors"

	"sluice/limiter"
)

// errReply says that the script's answer was not of the form that batch.lua
// describes. It cannot happen while script and Go come from one build.
var errReply = errors.New("malformed reply of the script")

// Decode hands the answers of one script call to the requests that it carried, in
// order: each gets its Result or its Err.
func Decode(reply string, requests []*Request) {
	in := reader{s: reply}
	in.length()
	now := in.integer()
	for _, r := range requests {
		r.decode(&in, now)
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

// decode reads the answer of one request of a call at time now.
func (r *Request) decode(in *reader, now int64) {
	kind := in.integer()
	switch kind {
	case kindPlain, kindDelayed:
		r.decodePlain(in, now, kind == kindDelayed)
		return
	case kindRefused:
		if msg := in.text(); !in.bad {
			r.Err = refusal(msg)
			return
		}
	}
	stored := kind == kindStored || kind == kindCommitted
	r.Committed, r.Booked = kind == kindCommitted, r.Booked[:0]
	r.Result = limiter.Result{Allowed: true, Replayed: stored, At: in.integer(), Limits: r.Result.Limits[:0]}
	for _, m := range r.most {
		d := limiter.Decision{Limit: m.limit, Rate: m.rate}
		d.Allowed = in.integer() == 1
		d.Remaining = in.integer()
		d.RetryAfter = in.integer()
		d.Reset = in.integer()
		d.Delay = in.integer()
		d.Refunded = in.integer()
		if stored {
			d.Limit, d.Rate = in.integer(), in.integer()
		}
		if r.part {
			r.Booked = append(r.Booked, Booking{At: in.integer(), Weight: in.integer(), Base: in.integer()})
		}
		r.Result.Allowed = r.Result.Allowed && d.Allowed
		r.Result.Limits = append(r.Result.Limits, d)
	}
	r.check(in)
}

// decodePlain reads the short answer of a plain take.
func (r *Request) decodePlain(in *reader, now int64, delayed bool) {
	r.Committed, r.Booked = false, r.Booked[:0]
	r.Result = limiter.Result{Allowed: true, At: now, Limits: r.Result.Limits[:0]}
	for _, m := range r.most {
		retry := in.integer()
		d := limiter.Decision{Allowed: retry == 0, Limit: m.limit, Rate: m.rate, RetryAfter: retry}
		d.Remaining = in.integer()
		d.Reset = in.integer()
		r.Result.Allowed = r.Result.Allowed && d.Allowed
		r.Result.Limits = append(r.Result.Limits, d)
	}
	if delayed {
		for i := range r.Result.Limits {
			r.Result.Limits[i].Delay = in.integer()
		}
	}
	r.check(in)
}

// check makes an answer that could not be read an error.
func (r *Request) check(in *reader) {
	if in.bad {
		r.Err = &limiter.StoreError{Cause: limiter.CauseInternal, Unknown: true, Err: errReply}
	}
}

// refusal is the error of one request inside a call that otherwise went through:
// it changed nothing.
func refusal(msg string) error {
	return &limiter.StoreError{Cause: CauseOf(msg), Err: errors.New(TrimTrace(msg))}
}
