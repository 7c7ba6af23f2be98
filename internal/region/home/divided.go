package home

import (
	"errors"
	"math/rand/v2"
	"slices"

	"sluice/limiter"
	"sluice/rules/match"
)

// part is what one place decides of a request. It has the request's memory.
type part struct {
	to    string // the region, "" for this one
	req   limiter.Request
	place []int // of each ask in the request

	asked  bool // it has an answer: res or err
	looked bool // another part has denied, so it only looks
	res    limiter.Result
	err    error
}

// spends reports whether the part changes something if it is allowed.
func (p *part) spends() bool {
	for i := range p.req.Asks {
		if p.req.Asks[i].Spends(p.req.Op) {
			return true
		}
	}
	return false
}

// took reports whether the part has taken something, or may have, or relies on what a repeat has taken.
func (p *part) took() bool {
	if !p.asked || p.looked || !p.spends() {
		return false
	}
	if p.err != nil {
		return unknown(p.err)
	}
	return p.res.Allowed && (!p.res.Replayed || p.req.Attempt != 0) || p.req.Op == limiter.OpCharge && !p.res.Replayed
}

// recorded reports whether what the part takes leaves a record.
func (p *part) recorded() bool {
	return slices.ContainsFunc(p.req.Asks, func(a limiter.Ask) bool { return !a.Limit.Algorithm.Traits().Slots })
}

// lessTaken shows a part without what it has taken and gives back later.
func (p *part) lessTaken() {
	for i := range p.res.Limits {
		if a, d := &p.req.Asks[i], &p.res.Limits[i]; a.Spends(p.req.Op) {
			d.Remaining, d.Used = min(d.Remaining+a.Weight, d.Limit), max(0, d.Used-a.Weight)
		}
	}
}

// divided is the state of one request whose limits are at several places, or at one place elsewhere.
//
// What it takes, it takes at one place after the other, because a denial of one must leave nothing at the others; this
// region comes first, because to give back here costs least. Everything else goes to all places at once.
type divided struct {
	call   *limiter.Call
	parts  []*part // this region's first
	own    bool    // its id was made for it, so nobody repeats it
	round  []*part // under way
	denied bool
	err    error
}

// divide makes the parts of a call, nil if it is malformed.
func (s *Store) divide(set *match.Set, call *limiter.Call) *divided {
	if call.Err = call.Request.Check(); call.Err != nil {
		return nil
	}
	req := &call.Request
	d := &divided{call: call, own: req.Unrepeated && req.ID != ""}
	places := s.places(set, req)
	id, brief := req.ID, false
	if elsewhere := len(places) > 1 || places[0] != ""; id == "" && d.takes() && elsewhere {
		id, d.own, brief = randomID(), true, true
	}
	attempt := req.Attempt
	if attempt == 0 && req.Op == limiter.OpTake && id != "" && !d.own && len(places) > 1 {
		attempt = 1 + rand.Int64N(limiter.MaxExact) //nolint:gosec // unique, not a secret
	}
	for _, to := range places {
		p := &part{to: to, req: limiter.Request{Op: req.Op, ID: id, Attempt: attempt, Keep: req.Keep, Brief: brief}}
		for i := range req.Asks {
			if s.home(set, req.Asks[i].Key) == to {
				p.req.Asks, p.place = append(p.req.Asks, req.Asks[i]), append(p.place, i)
			}
		}
		d.parts = append(d.parts, p)
	}
	return d
}

// takes reports whether the request is all or nothing.
func (d *divided) takes() bool {
	return d.call.Request.Op == limiter.OpTake || d.call.Request.Op == limiter.OpCharge
}

// next returns the parts to ask now, none if it is done.
func (d *divided) next() []*part {
	d.round = nil
	for _, p := range d.parts {
		switch {
		case p.asked || d.err != nil:
			continue
		case d.denied: // how much is left there belongs to the answer
			p.req.Op, p.req.ID, p.looked = limiter.OpPeek, "", true
		}
		if d.round = append(d.round, p); d.takes() && !d.denied {
			break
		}
	}
	return d.round
}

// learn reads what the parts under way have answered.
func (d *divided) learn() {
	for _, p := range d.round {
		switch {
		case p.looked && p.err != nil:
			p.unseen()
		case p.err != nil:
			d.fail(p)
		case d.call.Request.Op == limiter.OpTake && !p.looked && !p.res.Allowed:
			d.denied = true
		}
	}
}

// unseen is the answer of a part that could not be looked at: another has denied, which is certain. Nothing is said to
// remain.
func (p *part) unseen() {
	p.err = nil
	p.res.Limits = make([]limiter.Decision, len(p.req.Asks))
	for i := range p.req.Asks {
		l := &p.req.Asks[i].Limit
		p.res.Limits[i] = limiter.Decision{Allowed: true, Limit: l.Capacity(), Rate: l.Rate()}
	}
}

// fail notes the error of a part; the first one speaks for the request.
func (d *divided) fail(p *part) {
	if d.err == nil {
		d.err = p.err
	}
	var se *limiter.StoreError
	if unknown(p.err) && errors.As(d.err, &se) && !se.Unknown {
		d.err = &limiter.StoreError{Cause: se.Cause, Unknown: true, Err: se.Err}
	}
}

func unknown(err error) bool {
	var se *limiter.StoreError
	return errors.As(err, &se) && se.Unknown
}

// toUndo returns the parts that have taken what the request must not keep. The caller may repeat the request by its id,
// perhaps in another region at this moment, and the repeat then relies on what was taken. An attempt gives that back
// only if no other one holds it. Leases alone, which have no record that says so, are kept after a failure.
func (d *divided) toUndo() (parts []*part) {
	if !d.takes() || d.err == nil && !d.denied {
		return nil
	}
	for _, p := range d.parts {
		if p.took() && (d.own || p.req.Attempt != 0 && (d.err == nil || p.recorded())) {
			parts = append(parts, p)
		}
	}
	return parts
}

// answer writes the decision or the error.
func (d *divided) answer() {
	if d.err != nil {
		d.call.Err = d.failure()
		return
	}
	res := &d.call.Result
	if d.call.Request.Op == limiter.OpSettle {
		d.agreeOnSettle()
	}
	asks := len(d.call.Request.Asks)
	if cap(res.Limits) < asks {
		res.Limits = make([]limiter.Decision, asks)
	}
	res.Limits, res.Allowed, res.Replayed = res.Limits[:asks], true, false
	replays, fresh := false, false
	for _, p := range d.parts {
		res.Allowed = res.Allowed && (p.res.Allowed || p.looked)
		replays = replays || p.res.Replayed
		fresh = fresh || !p.res.Replayed && (p.spends() || d.call.Request.Op == limiter.OpSettle)
		for i, at := range p.place {
			res.Limits[at] = p.res.Limits[i]
		}
		if p.place[0] == 0 || res.At == 0 {
			res.At = p.res.At
		}
	}
	res.Allowed, res.Replayed = res.Allowed && !d.denied, replays && !fresh
}

// failure is the error of the request. What changed some buckets and cannot be undone is not certain.
func (d *divided) failure() error {
	var se *limiter.StoreError
	if !errors.As(d.err, &se) {
		return d.err
	}
	unsure := se.Unknown
	if !d.takes() && d.call.Request.Op != limiter.OpPeek {
		for _, p := range d.parts {
			unsure = unsure || p.asked && p.err == nil
		}
	}
	return &limiter.StoreError{Cause: se.Cause, Unknown: unsure, Err: se.Err}
}

// agreeOnSettle makes parts without a record agree with those that had one: they had nothing to settle.
func (d *divided) agreeOnSettle() {
	some := false
	for _, p := range d.parts {
		some = some || p.res.Allowed
	}
	for _, p := range d.parts {
		if !some || p.res.Allowed {
			continue
		}
		p.res.Allowed, p.res.Replayed = true, true
		for i := range p.res.Limits {
			p.res.Limits[i].Allowed = true
		}
	}
}
