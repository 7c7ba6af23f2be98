package redisstore

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

// part is what one slot decides of a request that spans slots.
type part struct {
	asks  []limiter.Ask
	place []int // of each ask in the request
	slot  int
	units int64 // how many such requests its narrowest limit admits at once
	bans  []int // which asks are bans that count the denials of the ask before; none of those counts by itself

	what      limiter.Op      // under way, or done last
	sent      *script.Request // belongs to a dispatcher while a round is under way
	res       limiter.Result
	err       error            // of the last round
	booked    []script.Booking // what this attempt has put into the buckets; nil for nothing
	name      string           // what it books under, and is undone by
	unsure    bool             // a take whose answer was lost: booked is not known
	stored    bool             // answered by the record of an earlier attempt
	committed bool             // and that record is committed
}

// spends reports whether a take of the part changes anything.
func (p *part) spends() bool { return p.units < math.MaxInt64 }

// takes reports whether what is under way books something.
func (p *part) takes() bool {
	return p.what == limiter.OpTake || p.what == limiter.OpCharge || p.what == script.OpCommit
}

// taken reports whether the part has been taken, or has nothing to take.
func (p *part) taken() bool { return p.booked != nil || p.stored || !p.spends() }

// crossSlot is the state of one request that spans slots. advance is called after
// each round: it reads the answers of that round and puts the parts of the next one
// into sending. The request is done when sending stays empty.
//
// A take goes in two rounds. The first takes at the narrowest part and looks at
// the others; if all fit, the second takes at those. If the request is denied, what
// was taken is undone, and bans count their denials in the same round. See
// docs/decisions/0011-across-slots.md.
type crossSlot struct {
	op    limiter.Op
	id    string
	keep  int64   // Request.Keep
	brief bool    // Request.Brief
	tried int64   // Request.Attempt
	hasty bool    // Request.Impatient
	whole string  // names the request in the records of its parts, "" without
	parts []*part // narrowest first
	asks  int

	sending []*part
	stage   stage
	strict  bool      // one part after the other: the second attempt after a lost race
	retry   bool      // make that attempt when everything has been undone
	giveUp  bool      // the caller has left: undo whatever was taken
	name    string    // of this attempt
	since   time.Time // when that began
	left    []*undo   // what could not be undone yet
	denied  bool
	err     *limiter.StoreError
	undone  int // parts undone
}

// stage says what the round under way is for.
type stage uint8

const (
	stageFirst  stage = iota // the narrowest takes, the others look; or all do as the request says
	stageTake                // the others take
	stageCommit              // parts that rely on an earlier attempt are confirmed
	stageUndo                // what was taken is undone
	stageDone
)

// split makes the parts of a request, which is valid and is not kept.
func split(prefix string, req *limiter.Request) *crossSlot {
	x := &crossSlot{op: req.Op, id: req.ID, keep: req.Keep, brief: req.Brief, tried: req.Attempt,
		hasty: req.Impatient, asks: len(req.Asks)}
	bySlot := make(map[int]*part, 4)
	for i := range req.Asks {
		a := req.Asks[i]
		if a.Former != nil {
			former := *a.Former
			a.Former = &former
		}
		slot := slotOf(prefix + string(a.Key))
		p := bySlot[slot]
		if p == nil {
			p = &part{slot: slot, units: math.MaxInt64}
			bySlot[slot] = p
			x.parts = append(x.parts, p)
		}
		if req.Op == limiter.OpTake && a.Limit.Algorithm == limiter.Ban && !a.Look && len(p.asks) > 0 {
			p.bans, a.Look = append(p.bans, len(p.asks)), true
		}
		p.asks, p.place = append(p.asks, a), append(p.place, i)
		if a.Spends(req.Op) {
			p.units = min(p.units, a.Limit.Capacity()/a.Weight)
		}
	}
	if req.Op != limiter.OpRefund && req.Op != limiter.OpSettle && script.HasRecord(req) {
		x.whole = nameOf(req)
	}
	slices.SortFunc(x.parts, func(a, b *part) int {
		switch {
		case a.units < b.units:
			return -1
		case a.units > b.units:
			return 1
		}
		return strings.Compare(string(a.asks[0].Key), string(b.asks[0].Key))
	})
	x.begin()
	return x
}

// nameOf tells requests with one ID but different keys apart, bans aside.
func nameOf(req *limiter.Request) string {
	h := sha256.New()
	var n [4]byte
	for i := range req.Asks {
		if req.Asks[i].Limit.Algorithm == limiter.Ban {
			continue
		}
		k := req.Asks[i].Key
		binary.BigEndian.PutUint32(n[:], uint32(len(k))) //nolint:gosec // keys are short
		h.Write(n[:])
		h.Write([]byte(k))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

// begin prepares the first round.
func (x *crossSlot) begin() {
	x.stage, x.denied, x.name, x.since = stageFirst, false, newName(), wallTime()
	first := x.op == limiter.OpTake
	for _, p := range x.parts {
		p.stored, p.committed, p.unsure = false, false, false
		p.what = x.op
		if x.op == limiter.OpTake {
			p.what = limiter.OpPeek
			if first && p.spends() {
				p.what, first = limiter.OpTake, false
			}
		}
	}
	x.sending = x.parts
}

// done reports whether nothing is left to send.
func (x *crossSlot) done() bool { return x.stage == stageDone }

// encode fills o with what p does in the coming round.
func (x *crossSlot) encode(names *script.Names, p *part, o *script.Request) {
	req := limiter.Request{Op: p.what, ID: x.id, Keep: x.keep, Brief: x.brief, Attempt: x.tried, Asks: p.asks,
		Impatient: x.hasty && x.stage != stageUndo}
	o.Slot, p.sent = p.slot, o
	switch {
	case x.op == limiter.OpRefund, x.op == limiter.OpSettle:
		// These look for the record as an undivided one would, so that it
		// finds those of parts and of whole requests.
		o.Encode(names, &req)
	case p.what == script.OpCount:
		req.Asks = make([]limiter.Ask, 0, len(p.bans))
		for _, i := range p.denials() {
			req.Asks = append(req.Asks, p.asks[i])
		}
		o.Encode(names, &req)
	case p.what == script.OpUndo:
		o.EncodePart(names, &req, x.whole, p.name)
	case p.takes():
		p.name = x.name
		o.EncodePart(names, &req, x.whole, p.name)
	default:
		o.EncodePart(names, &req, x.whole, "")
	}
}

// advance reads the answers of a round and prepares the next.
func (x *crossSlot) advance() {
	sent := x.sending
	x.sending = nil
	if x.stage == stageUndo {
		x.readUndone(sent)
		return
	}
	for _, p := range sent {
		if p.read(); p.err != nil {
			x.fail(p)
		}
	}
	if x.stage == stageFirst && x.repeated() {
		x.allowLooks()
	}
	for _, p := range sent {
		x.denied = x.denied || p.err == nil && !p.res.Allowed
	}
	switch {
	case x.err != nil || x.giveUp:
		x.startUndo()
	case x.op != limiter.OpTake:
		x.stage = stageDone
	case x.denied:
		x.retry = x.stage == stageTake && !x.strict && len(x.parts) > 2
		x.startUndo()
	default:
		x.proceed()
	}
}

// repeated reports whether every part that spends was answered by its record.
func (x *crossSlot) repeated() bool {
	stored := false
	for _, p := range x.parts {
		if p.spends() && !p.stored {
			return false
		}
		stored = stored || p.stored
	}
	return stored
}

// allowLooks makes parts that only look allow a repeat. They leave no record, and what they
// say now must not undo what was admitted before.
func (x *crossSlot) allowLooks() {
	for _, p := range x.parts {
		if p.spends() || p.err != nil {
			continue
		}
		p.res.Allowed = true
		for i := range p.res.Limits {
			d := &p.res.Limits[i]
			d.Allowed, d.Held, d.RetryAfter, d.Delay = true, false, 0, max(d.Delay, 0)
		}
	}
}

// read takes over the answer of the last round.
func (p *part) read() {
	if p.err = p.sent.Err; p.err != nil {
		return
	}
	from := &p.sent.Result
	p.res.Allowed, p.res.Replayed, p.res.At = from.Allowed, from.Replayed, from.At
	p.res.Limits = append(p.res.Limits[:0], from.Limits...)
	switch p.what {
	case limiter.OpPeek, limiter.OpTake, limiter.OpCharge, script.OpCommit:
		p.stored, p.committed = p.res.Replayed, p.sent.Committed
		if p.stored || p.what == limiter.OpPeek {
			return
		}
		for _, b := range p.sent.Booked {
			if b.Weight > 0 {
				p.booked = slices.Clone(p.sent.Booked)
				return
			}
		}
	}
}

// denials returns the bans that have a denial to count.
func (p *part) denials() []int {
	var denied []int
	for _, i := range p.bans {
		before := &p.res.Limits[i-1]
		if p.res.Limits[i].Allowed && !before.Allowed && !before.Held && p.asks[i-1].Weight > 0 {
			denied = append(denied, i)
		}
	}
	return denied
}

// readCounted takes over what the bans of denials say now.
func (p *part) readCounted(denials []int) {
	for n, i := range denials {
		p.res.Limits[i] = p.sent.Result.Limits[n]
	}
}

// fail notes the error of a part; the first one speaks for the request.
func (x *crossSlot) fail(p *part) {
	se := asStoreError(p.err)
	changes := p.what != limiter.OpPeek
	if x.err == nil {
		x.err = &limiter.StoreError{Cause: se.Cause, Err: se.Err}
	}
	if se.Unknown && changes {
		x.err.Unknown = true
		p.unsure = p.takes()
	}
}

// proceed goes on after a round in which everything fitted.
func (x *crossSlot) proceed() {
	for _, p := range x.parts {
		if !p.taken() && (len(x.sending) == 0 || !x.strict) {
			p.what = limiter.OpTake
			x.sending = append(x.sending, p)
		}
	}
	if len(x.sending) > 0 {
		x.stage = stageTake
		return
	}
	// The attempt whose records some parts rely on may still find itself denied
	// and undo, unless it finds them committed.
	for _, p := range x.parts {
		if p.stored && !p.committed {
			p.what = script.OpCommit
			x.sending = append(x.sending, p)
		}
	}
	x.stage = stageCommit
	if len(x.sending) == 0 {
		x.stage = stageDone
	}
}

// startUndo prepares the round that undoes everything, and in which the denials of a
// denied request are counted. A part that is denied has nothing to undo.
func (x *crossSlot) startUndo() {
	if x.op != limiter.OpTake && x.op != limiter.OpCharge {
		// What else changes buckets cannot be undone.
		for _, p := range x.parts {
			if x.err != nil && p.err == nil && x.op != limiter.OpPeek {
				x.err.Unknown = true
			}
		}
		x.stage = stageDone
		return
	}
	counts := x.op == limiter.OpTake && x.denied && x.err == nil && !x.retry
	for _, p := range x.parts {
		switch {
		case p.booked != nil || p.unsure || p.what == script.OpCommit && x.tried != 0:
			p.what = script.OpUndo
		case counts && len(p.denials()) > 0:
			p.what = script.OpCount
		default:
			continue
		}
		x.sending = append(x.sending, p)
	}
	x.stage = stageUndo
	if len(x.sending) == 0 {
		x.readUndone(nil)
	}
}

// readUndone reads the answers of the round that undid. What was not confirmed is
// left to be repeated: a denial stays one meanwhile. A count that failed is not repeated.
func (x *crossSlot) readUndone(sent []*part) {
	for _, p := range sent {
		if p.what == script.OpCount {
			if p.sent.Err == nil {
				p.readCounted(p.denials())
			}
			continue
		}
		if p.sent.Err != nil {
			x.left = append(x.left, x.undo(p, p.sent.Err))
			if x.err != nil {
				x.err.Unknown = true
			}
			continue
		}
		if p.booked != nil || gaveBack(&p.sent.Result) {
			x.undone++
		}
		p.booked = nil
		for i := range p.res.Limits {
			d, now := &p.res.Limits[i], p.sent.Result.Limits[i]
			d.Remaining, d.Used, d.Reset = now.Remaining, now.Used, now.Reset
		}
	}
	if x.retry && x.err == nil && !x.giveUp && len(x.left) == 0 {
		x.retry, x.strict = false, true
		x.begin()
		return
	}
	x.stage = stageDone
}

// agreeOnSettle makes parts without a record agree with those that had one: they had
// nothing to settle.
func (x *crossSlot) agreeOnSettle() {
	if !slices.ContainsFunc(x.parts, func(p *part) bool { return p.res.Allowed }) {
		return
	}
	for _, p := range x.parts {
		p.stored = p.res.Replayed || !p.res.Allowed
		for i := range p.res.Limits {
			p.res.Limits[i].Allowed = true
		}
		p.res.Allowed = true
	}
}

// answer writes the decision, or returns why there is none.
func (x *crossSlot) answer(res *limiter.Result) error {
	if x.err != nil {
		return x.err
	}
	if x.op == limiter.OpSettle {
		x.agreeOnSettle()
	}
	res.Allowed, res.Replayed = true, x.whole != "" || x.op == limiter.OpSettle
	if cap(res.Limits) < x.asks {
		res.Limits = make([]limiter.Decision, x.asks)
	}
	res.Limits = res.Limits[:x.asks]
	for _, p := range x.parts {
		res.Allowed = res.Allowed && p.res.Allowed
		res.Replayed = res.Replayed && (p.stored || !p.spends())
		for i, place := range p.place {
			res.Limits[place] = p.res.Limits[i]
		}
		if p.place[0] == 0 {
			res.At = p.res.At
		}
	}
	return nil
}
