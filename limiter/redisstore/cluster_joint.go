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

// joint is one request that spans slots while it is decided. advance is called after
// each round: it reads the answers of that round and puts the parts of the next one
// into sending. The request is done when sending stays empty.
//
// A take goes in two rounds. The first takes at the narrowest part and looks at
// the others; if all fit, the second takes at those. See
// docs/decisions/0011-across-slots.md.
type joint struct {
	op    limiter.Op
	id    string
	keep  int64   // Request.Keep
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
func split(prefix string, req *limiter.Request) *joint {
	j := &joint{op: req.Op, id: req.ID, keep: req.Keep, asks: len(req.Asks)}
	bySlot := make(map[int]*part, 4)
	for i := range req.Asks {
		a := req.Asks[i]
		slot := slotOf(prefix + string(a.Key))
		p := bySlot[slot]
		if p == nil {
			p = &part{slot: slot, units: math.MaxInt64}
			bySlot[slot] = p
			j.parts = append(j.parts, p)
		}
		p.asks, p.place = append(p.asks, a), append(p.place, i)
		if a.Spends(req.Op) {
			p.units = min(p.units, a.Limit.Capacity()/a.Weight)
		}
	}
	if req.Op != limiter.OpRefund && req.Op != limiter.OpSettle && script.HasRecord(req) {
		j.whole = nameOf(req)
	}
	slices.SortFunc(j.parts, func(a, b *part) int {
		switch {
		case a.units < b.units:
			return -1
		case a.units > b.units:
			return 1
		}
		return strings.Compare(string(a.asks[0].Key), string(b.asks[0].Key))
	})
	j.begin()
	return j
}

// nameOf tells requests with one ID but different keys apart.
func nameOf(req *limiter.Request) string {
	h := sha256.New()
	var n [4]byte
	for i := range req.Asks {
		k := req.Asks[i].Key
		binary.BigEndian.PutUint32(n[:], uint32(len(k))) //nolint:gosec // keys are short
		h.Write(n[:])
		h.Write([]byte(k))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

// begin prepares the first round.
func (j *joint) begin() {
	j.stage, j.denied, j.name, j.since = stageFirst, false, newName(), wallTime()
	first := j.op == limiter.OpTake
	for _, p := range j.parts {
		p.stored, p.committed, p.unsure = false, false, false
		p.what = j.op
		if j.op == limiter.OpTake {
			p.what = limiter.OpPeek
			if first && p.spends() {
				p.what, first = limiter.OpTake, false
			}
		}
	}
	j.sending = j.parts
}

// done reports whether nothing is left to send.
func (j *joint) done() bool { return j.stage == stageDone }

// encode fills o with what p does in the coming round.
func (j *joint) encode(names *script.Names, p *part, o *script.Request) {
	req := limiter.Request{Op: p.what, ID: j.id, Keep: j.keep, Asks: p.asks}
	o.Slot, p.sent = p.slot, o
	switch {
	case j.op == limiter.OpRefund, j.op == limiter.OpSettle:
		// These look for the record as an undivided one would, so that it
		// finds those of parts and of whole requests.
		o.Encode(names, &req)
	case p.what == script.OpUndo:
		o.EncodePart(names, &req, j.whole, p.name)
	case p.takes():
		p.name = j.name
		o.EncodePart(names, &req, j.whole, p.name)
	default:
		o.EncodePart(names, &req, j.whole, "")
	}
}

// advance reads the answers of a round and prepares the next.
func (j *joint) advance() {
	sent := j.sending
	j.sending = nil
	if j.stage == stageUndo {
		j.readUndone(sent)
		return
	}
	for _, p := range sent {
		if p.read(); p.err != nil {
			j.fail(p)
		}
	}
	if j.stage == stageFirst && j.repeated() {
		j.excuse()
	}
	for _, p := range sent {
		j.denied = j.denied || p.err == nil && !p.res.Allowed
	}
	switch {
	case j.err != nil || j.giveUp:
		j.startUndo()
	case j.op != limiter.OpTake:
		j.stage = stageDone
	case j.denied:
		j.retry = j.stage == stageTake && !j.strict && len(j.parts) > 2
		j.startUndo()
	default:
		j.proceed()
	}
}

// repeated reports whether every part that spends was answered by its record.
func (j *joint) repeated() bool {
	stored := false
	for _, p := range j.parts {
		if p.spends() && !p.stored {
			return false
		}
		stored = stored || p.stored
	}
	return stored
}

// excuse makes parts that only look agree to a repeat: they leave no record, and
// what they say today does not undo what was admitted.
func (j *joint) excuse() {
	for _, p := range j.parts {
		if p.spends() || p.err != nil {
			continue
		}
		p.res.Allowed = true
		for i := range p.res.Limits {
			d := &p.res.Limits[i]
			d.Allowed, d.RetryAfter, d.Delay = true, 0, max(d.Delay, 0)
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

// fail notes the error of a part; the first one speaks for the request.
func (j *joint) fail(p *part) {
	se := asStoreError(p.err)
	changes := p.what != limiter.OpPeek
	if j.err == nil {
		j.err = &limiter.StoreError{Cause: se.Cause, Err: se.Err}
	}
	if se.Unknown && changes {
		j.err.Unknown = true
		p.unsure = p.takes()
	}
}

// proceed goes on after a round in which everything fitted.
func (j *joint) proceed() {
	for _, p := range j.parts {
		if !p.taken() && (len(j.sending) == 0 || !j.strict) {
			p.what = limiter.OpTake
			j.sending = append(j.sending, p)
		}
	}
	if len(j.sending) > 0 {
		j.stage = stageTake
		return
	}
	// The attempt whose records some parts rely on may still find itself denied
	// and undo, unless it finds them committed.
	for _, p := range j.parts {
		if p.stored && !p.committed {
			p.what = script.OpCommit
			j.sending = append(j.sending, p)
		}
	}
	j.stage = stageCommit
	if len(j.sending) == 0 {
		j.stage = stageDone
	}
}

// startUndo prepares the round that undoes everything.
func (j *joint) startUndo() {
	if j.op != limiter.OpTake && j.op != limiter.OpCharge {
		// What else changes buckets cannot be undone.
		for _, p := range j.parts {
			if j.err != nil && p.err == nil && j.op != limiter.OpPeek {
				j.err.Unknown = true
			}
		}
		j.stage = stageDone
		return
	}
	for _, p := range j.parts {
		if p.booked != nil || p.unsure {
			p.what = script.OpUndo
			j.sending = append(j.sending, p)
		}
	}
	j.stage = stageUndo
	if len(j.sending) == 0 {
		j.readUndone(nil)
	}
}

// readUndone reads the answers of the round that undid. What was not confirmed is
// left to be repeated: a denial stays one meanwhile.
func (j *joint) readUndone(sent []*part) {
	for _, p := range sent {
		if p.sent.Err != nil {
			j.left = append(j.left, j.undo(p, p.sent.Err))
			if j.err != nil {
				j.err.Unknown = true
			}
			continue
		}
		if p.booked != nil || gaveBack(&p.sent.Result) {
			j.undone++
		}
		p.booked = nil
		for i := range p.res.Limits {
			d, now := &p.res.Limits[i], p.sent.Result.Limits[i]
			d.Remaining, d.Reset = now.Remaining, now.Reset
		}
	}
	if j.retry && j.err == nil && !j.giveUp && len(j.left) == 0 {
		j.retry, j.strict = false, true
		j.begin()
		return
	}
	j.stage = stageDone
}

// agreeOnSettle makes parts without a record agree with those that had one: they had
// nothing to settle.
func (j *joint) agreeOnSettle() {
	if !slices.ContainsFunc(j.parts, func(p *part) bool { return p.res.Allowed }) {
		return
	}
	for _, p := range j.parts {
		p.stored = p.res.Replayed || !p.res.Allowed
		for i := range p.res.Limits {
			p.res.Limits[i].Allowed = true
		}
		p.res.Allowed = true
	}
}

// answer writes the decision, or returns why there is none.
func (j *joint) answer(res *limiter.Result) error {
	if j.err != nil {
		return j.err
	}
	if j.op == limiter.OpSettle {
		j.agreeOnSettle()
	}
	res.Allowed, res.Replayed = true, j.whole != "" || j.op == limiter.OpSettle
	if cap(res.Limits) < j.asks {
		res.Limits = make([]limiter.Decision, j.asks)
	}
	res.Limits = res.Limits[:j.asks]
	for _, p := range j.parts {
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
