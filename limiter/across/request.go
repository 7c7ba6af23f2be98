package across

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"sluice/limiter"
)

// Step is what a part does in a round.
type Step uint8

// The steps.
const (
	Ask     Step = iota // what the request asks for
	Look                // a peek
	Confirm             // rely on the record of an earlier attempt, so that nobody undoes it
	Undo                // give back what the part took, or may have taken
	Count               // let bans count a denial, and limits with KeptSet fall: Part.Asks are these
)

// Part is what one place decides of a request.
type Part struct {
	Of    *Request
	Place int
	// Step is under way, or was done last.
	Step Step
	// Request holds the asks of this place in separate memory. The caller of New may change its other members.
	Request limiter.Request
	// Kept is for the caller of New to set: what the part took stays after a failure, for a repeat to rely on.
	Kept bool
	// Got is for the caller of Run to set in each round.
	Got Answer

	positions []int // the index of each ask in the request
	units     int64 // how many such requests its narrowest limit admits at once
	bans      []int // the asks that are bans and count the denials of the preceding ask; none of them counts on its own
	lowering  []int // which asks have a limit that a denial may lower (limiter.KeptSet)
	counting  []int // the bans that count in this round

	result  limiter.Result
	answers int  // in this attempt
	asked   bool // it has nothing left to ask
	firm    bool // if its answer is from a record, nobody undoes that
	took    bool
	unsure  bool // it may have taken: the answer was lost
}

// Answer is what a place answers to a part.
type Answer struct {
	Err    error
	Result *limiter.Result // it is read until the next round is sent
	// Took: the part has taken something, or relies on a record, so that it must be undone if the request is denied.
	Took bool
	// Firm: nobody undoes the record that the answer is from.
	Firm bool
}

// Spends reports whether the part changes something if it is allowed.
func (p *Part) Spends() bool { return p.units < math.MaxInt64 }

// Unsure reports whether the part may have taken something, because the answer was lost.
func (p *Part) Unsure() bool { return p.unsure }

// Asks returns the asks of the present step.
func (p *Part) Asks() []limiter.Ask {
	if p.Step != Count {
		return p.Request.Asks
	}
	asks := make([]limiter.Ask, len(p.counting))
	for n, i := range p.counting {
		asks[n] = p.Request.Asks[i]
	}
	return asks
}

// Request is the state of one request over several places.
type Request struct {
	// Parts are in the order in which they take.
	Parts []*Part
	// Whole and Name are for the caller: how places call the request and this attempt at it.
	Whole, Name string

	op        limiter.Op
	asks      int
	lookFirst bool
	round     []*Part // under way; none: the request is done
	undoing   bool    // that round undoes
	denied    bool
	lost      bool // the units went to another request after the look had allowed
	err       *limiter.StoreError
	left      []*Part // whose undo is not confirmed
	undone    int64
}

// Options say how requests are divided and taken.
type Options struct {
	// Place is where an ask is decided.
	Place func(*limiter.Ask) int
	// LookFirst: a take takes at its narrowest part and looks at the others, and then takes at all others at once.
	// Otherwise it takes at one place after the other, the lowest first.
	LookFirst bool
}

// New divides a request, which is valid. Its memory is not kept.
func New(req *limiter.Request, opt Options) *Request {
	r := &Request{op: req.Op, asks: len(req.Asks), lookFirst: opt.LookFirst}
	byPlace := make(map[int]*Part, 4)
	for i := range req.Asks {
		a := req.Asks[i]
		if a.Former != nil {
			former := *a.Former
			a.Former = &former
		}
		place := opt.Place(&a)
		p := byPlace[place]
		if p == nil {
			p = &Part{Of: r, Place: place, units: math.MaxInt64, Request: limiter.Request{Op: req.Op, ID: req.ID,
				Keep: req.Keep, Attempt: req.Attempt, Brief: req.Brief, Impatient: req.Impatient}}
			byPlace[place] = p
			r.Parts = append(r.Parts, p)
		}
		own := &p.Request
		if opt.LookFirst && r.op == limiter.OpTake && a.Limit.Algorithm == limiter.Ban && !a.Look && len(own.Asks) > 0 {
			p.bans, a.Look = append(p.bans, len(own.Asks)), true
		}
		if opt.LookFirst && a.Limit.Kept == limiter.KeptSet && a.Spends(r.op) {
			p.lowering = append(p.lowering, len(own.Asks))
		}
		own.Asks, p.positions = append(own.Asks, a), append(p.positions, i)
		if a.Spends(r.op) {
			p.units = min(p.units, a.Limit.Capacity()/a.Weight)
		}
	}
	slices.SortFunc(r.Parts, func(a, b *Part) int {
		if !opt.LookFirst {
			return cmp.Compare(a.Place, b.Place)
		}
		return cmp.Or(cmp.Compare(a.units, b.units), cmp.Compare(a.Request.Asks[0].Key, b.Request.Asks[0].Key))
	})
	r.begin()
	return r
}

// Run decides requests in rounds, all at once, until they are done. carry sends the parts of a round and sets Got of
// each.
func Run(requests []*Request, carry func(round []*Part)) {
	var round []*Part
	for {
		round = round[:0]
		for _, r := range requests {
			round = append(round, r.round...)
		}
		if len(round) == 0 {
			return
		}
		carry(round)
		for _, r := range requests {
			if len(r.round) > 0 {
				r.advance()
			}
		}
	}
}

// begin prepares the first round of an attempt.
func (r *Request) begin() {
	first := r.op == limiter.OpTake
	for _, p := range r.Parts {
		p.answers, p.asked, p.firm, p.result.Replayed = 0, false, false, false
		switch {
		case r.op != limiter.OpTake:
			r.send(p, Ask)
		case r.lookFirst && first && p.Spends():
			r.send(p, Ask)
			first = false
		case r.lookFirst:
			r.send(p, Look)
		}
	}
	if len(r.round) == 0 {
		r.proceed()
	}
}

// takes reports whether the request is all or nothing.
func (r *Request) takes() bool { return r.op == limiter.OpTake || r.op == limiter.OpCharge }

func (r *Request) send(p *Part, s Step) { p.Step, r.round = s, append(r.round, p) }

// advance reads the answers of a round and prepares the next one.
func (r *Request) advance() {
	if r.undoing {
		r.endUndo()
		return
	}
	for _, p := range r.round {
		if p.Got.Err != nil {
			r.fail(p)
		} else {
			p.learn()
		}
	}
	r.allowLooks()
	for _, p := range r.round {
		if p.Got.Err == nil && !p.result.Allowed {
			r.denied, r.lost = true, r.lost || r.lookFirst && p.answers > 1
		}
	}
	r.round = r.round[:0]
	switch {
	case r.err != nil, r.op == limiter.OpTake && r.denied:
		r.undo()
	case r.op == limiter.OpTake:
		r.proceed()
	}
}

// learn takes over an answer.
func (p *Part) learn() {
	got := p.Got.Result
	p.result.Allowed, p.result.Replayed, p.result.At = got.Allowed, got.Replayed, got.At
	p.result.Limits = append(p.result.Limits[:0], got.Limits...)
	p.answers++
	p.asked = p.Step != Look || got.Replayed || !p.Spends()
	p.firm = p.Got.Firm || p.Step == Confirm
	p.took = p.took || p.Got.Took && p.Step != Look
}

// fail notes the error of a part. The first one speaks for the request.
func (r *Request) fail(p *Part) {
	se := &limiter.StoreError{Cause: limiter.CauseInternal, Unknown: true, Err: p.Got.Err}
	errors.As(p.Got.Err, &se)
	if r.err == nil {
		r.err = &limiter.StoreError{Cause: se.Cause, Err: se.Err}
	}
	if se.Unknown && p.Step != Look && r.op != limiter.OpPeek {
		r.err.Unknown, p.unsure = true, p.Spends()
	}
}

// allowLooks makes parts that only look allow a repeat: one of which every part that spends is answered by its record.
// Looks leave no record, and their present answer must not undo an earlier admission.
func (r *Request) allowLooks() {
	repeat := false
	for _, p := range r.Parts {
		if p.Spends() && !p.result.Replayed || !r.takes() {
			return
		}
		repeat = repeat || p.result.Replayed
	}
	for _, p := range r.Parts {
		if !repeat || p.Spends() {
			continue
		}
		p.result.Allowed = true
		for i := range p.result.Limits {
			d := &p.result.Limits[i]
			d.Allowed, d.Held, d.RetryAfter, d.Delay = true, false, 0, max(d.Delay, 0)
		}
	}
}

// proceed continues a take while everything fits: first with the parts that have not taken, then with the parts that
// rely on an earlier attempt. That attempt may still be denied and undo, unless they confirm.
func (r *Request) proceed() {
	for _, p := range r.Parts {
		if !p.asked && (r.lookFirst || len(r.round) == 0) {
			r.send(p, Ask)
		}
	}
	if len(r.round) > 0 {
		return
	}
	for _, p := range r.Parts {
		if p.result.Replayed && !p.firm {
			r.send(p, Confirm)
		}
	}
}

// undo prepares the round after a failure or a denial: it undoes the takes. After a denial the other parts look, so
// that the answer lists every limit, and bans count the denial.
func (r *Request) undo() {
	if !r.takes() {
		for _, p := range r.Parts { // what else changes buckets cannot be undone
			r.err.Unknown = r.err.Unknown || p.answers > 0 && r.op != limiter.OpPeek
		}
		return
	}
	r.undoing = true
	for _, p := range r.Parts {
		switch p.counting = p.denials(); {
		case p.took && p.Kept && r.err != nil:
			r.err.Unknown = true
		case (p.took || p.unsure) && (r.err == nil || !p.Kept):
			r.send(p, Undo)
		case r.err != nil || r.again():
		case p.answers == 0:
			r.send(p, Look)
		case len(p.counting) > 0:
			r.send(p, Count)
		}
	}
	if len(r.round) == 0 {
		r.endUndo()
	}
}

// again reports whether a denied take is tried once more, one part after the other, after everything is undone:
// otherwise two requests that each hold what the other lacks would both be denied. With two parts one of them wins.
func (r *Request) again() bool { return r.lost && r.err == nil && len(r.left) == 0 && len(r.Parts) > 2 }

// denials are the bans that have a denial to count, and the limits that a denial lowers below what is spent.
func (p *Part) denials() (denials []int) {
	if p.answers == 0 {
		return nil
	}
	for _, i := range p.bans {
		before := &p.result.Limits[i-1]
		if p.result.Limits[i].Allowed && !before.Allowed && !before.Held && p.Request.Asks[i-1].Weight > 0 {
			denials = append(denials, i)
		}
	}
	for _, i := range p.lowering {
		if d := &p.result.Limits[i]; !d.Allowed && d.Used > p.Request.Asks[i].Limit.Count {
			denials = append(denials, i)
		}
	}
	return denials
}

// endUndo reads the answers of the round that undid. Unconfirmed undos are left to be repeated: until then a denial
// stays a denial. A failed count is not repeated.
func (r *Request) endUndo() {
	for _, p := range r.round {
		switch got := &p.Got; {
		case p.Step == Look && got.Err != nil:
			p.unseen()
		case p.Step == Look:
			p.learn()
		case p.Step == Count:
			for n, i := range p.counting {
				if got.Err == nil {
					p.result.Limits[i] = got.Result.Limits[n]
				}
			}
		case got.Err != nil:
			r.left = append(r.left, p)
			p.lessTaken()
			if r.err != nil {
				r.err.Unknown = true
			}
		default:
			if p.givesParts() || gaveBack(got.Result) {
				r.undone++
			}
			p.took = false
			for i := range p.result.Limits {
				d, now := &p.result.Limits[i], &got.Result.Limits[i]
				d.Remaining, d.Used, d.Reset = now.Remaining, now.Used, now.Reset
			}
		}
	}
	r.round = r.round[:0]
	if r.again() {
		r.Name += "'"
		r.lost, r.denied, r.lookFirst, r.undoing = false, false, false, false
		r.begin()
		return
	}
	if r.lost && r.err == nil { // it was to be tried again, and is not: bans count the denial now
		r.lost = false
		for _, p := range r.Parts {
			if len(p.counting) > 0 && p.Step != Count {
				r.send(p, Count)
			}
		}
	}
}

// unseen is the answer of a part whose look failed. Another part has certainly denied. The answer says that nothing
// remains.
func (p *Part) unseen() {
	p.result = limiter.Result{Allowed: true, Limits: make([]limiter.Decision, len(p.Request.Asks))}
	for i := range p.Request.Asks {
		l := &p.Request.Asks[i].Limit
		p.result.Limits[i] = limiter.Decision{Allowed: true, Limit: l.Capacity(), Rate: l.Rate()}
	}
}

// lessTaken shows a part without what it took and gives back later.
func (p *Part) lessTaken() {
	for i := range p.result.Limits {
		if a, d := &p.Request.Asks[i], &p.result.Limits[i]; a.Spends(p.Of.op) {
			d.Remaining, d.Used = min(d.Remaining+a.Weight, d.Limit), max(0, d.Used-a.Weight)
		}
	}
}

// gaveBack reports whether an answer gave back anything.
func gaveBack(res *limiter.Result) bool {
	return slices.ContainsFunc(res.Limits, func(d limiter.Decision) bool { return d.Refunded > 0 })
}

// givesParts reports whether the part has taken from a bucket that drains. Its undo may give back less than a unit,
// which Refunded leaves out.
func (p *Part) givesParts() bool {
	return p.took && !p.result.Replayed && slices.ContainsFunc(p.Request.Asks, func(a limiter.Ask) bool {
		return a.Spends(p.Of.op) && a.Limit.Rate() > 0
	})
}

// Answer writes the decision of a request that is done, or returns why there is none.
func (r *Request) Answer(res *limiter.Result) error {
	if r.err != nil {
		return r.err
	}
	if r.op == limiter.OpSettle {
		r.agreeOnSettle()
	}
	if cap(res.Limits) < r.asks {
		res.Limits = make([]limiter.Decision, r.asks)
	}
	res.Limits, res.Allowed, res.At = res.Limits[:r.asks], true, 0
	replayed, fresh := false, false
	for _, p := range r.Parts {
		res.Allowed = res.Allowed && p.result.Allowed
		replayed = replayed || p.result.Replayed
		fresh = fresh || !p.result.Replayed && (p.Spends() || r.op == limiter.OpSettle)
		for i, at := range p.positions {
			res.Limits[at] = p.result.Limits[i]
		}
		if p.positions[0] == 0 && p.result.At != 0 || res.At == 0 {
			res.At = p.result.At
		}
	}
	res.Replayed = replayed && !fresh
	return nil
}

// agreeOnSettle makes parts without a record agree with the others: they had nothing to settle.
func (r *Request) agreeOnSettle() {
	if !slices.ContainsFunc(r.Parts, func(p *Part) bool { return p.result.Allowed }) {
		return
	}
	for _, p := range r.Parts {
		p.result.Replayed = p.result.Replayed || !p.result.Allowed
		p.result.Allowed = true
		for i := range p.result.Limits {
			p.result.Limits[i].Allowed = true
		}
	}
}
