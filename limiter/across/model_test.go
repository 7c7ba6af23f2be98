package across

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
)

// place is a virtual place with one limit, as a slot of a cluster or as a region. Its limit has records. One of leases
// alone has none: decision 11 says what its repeats may lose.
type place struct {
	limit, used int64
	slot        bool
	names       map[string]int64    // of a slot: what was booked under a name; ended: nothing may be any more
	records     map[string]*record  // by the id of the request
	held        map[*admitted]int64 // units by who holds them
}

const ended = -1

// record is what a request with an id took. Several attempts may hold it.
type record struct {
	units   int64
	by      string
	holders map[int64]bool
}

// message is one part of a round on its way.
type message struct {
	step    Step
	op      limiter.Op
	id      string
	attempt int64
	name    string
	weight  int64
	of      *admitted
}

func (w *world) messageOf(p *Part) message {
	return message{p.Step, p.Request.Op, p.Request.ID, p.Request.Attempt, p.Of.Name, p.Request.Asks[0].Weight, w.of[p.Of]}
}

// do carries out a message.
func (p *place) do(m message) Answer {
	d := limiter.Decision{Allowed: true, Limit: p.limit}
	answer := Answer{Result: &limiter.Result{At: 1}, Firm: !p.slot}
	r, fits := p.records[m.id], p.used+m.weight <= p.limit || m.op == limiter.OpCharge
	booked, named := p.names[m.name]
	givenUp := Answer{Err: &limiter.StoreError{Cause: limiter.CauseCanceled, Err: errCut}}
	switch {
	case m.step == Undo:
		d.Refunded = p.undo(m)
	case r != nil && (p.slot || m.step == Ask):
		holds := m.step == Confirm || m.step == Ask && (!p.slot || m.op == limiter.OpCharge)
		if holds && p.slot && booked == ended {
			return givenUp
		}
		if answer.Result.Replayed = true; holds && m.attempt != 0 {
			r.holders[m.attempt], answer.Took = true, true
		}
		answer.Firm = answer.Firm || holds
	case !fits, m.step == Look, m.weight == 0:
		d.Allowed = fits
	case p.slot && named:
		return givenUp
	default:
		p.spend(m, m.weight)
		if answer.Took = true; p.slot {
			p.names[m.name] = m.weight
		}
		if m.id != "" {
			p.records[m.id] = &record{units: m.weight, by: m.name, holders: map[int64]bool{m.attempt: true}}
		}
	}
	d.Remaining = max(0, p.limit-p.used)
	answer.Result.Allowed, answer.Result.Limits = d.Allowed, []limiter.Decision{d}
	return answer
}

func (p *place) spend(m message, units int64) {
	p.used, p.held[m.of] = p.used+units, p.held[m.of]+units
}

// undo gives back what a message took, or what it relies on, once, unless another attempt relies on it.
func (p *place) undo(m message) (given int64) {
	r, booked := p.records[m.id], p.names[m.name]
	held := r != nil && r.holders[m.attempt]
	if held {
		delete(r.holders, m.attempt)
	}
	switch {
	case booked > 0:
		if delete(p.names, m.name); m.id == "" || r != nil && r.by == m.name && len(r.holders) == 0 {
			given = booked
		}
	case held && len(r.holders) == 0:
		given = r.units
	}
	if booked <= 0 && p.slot {
		p.names[m.name] = ended
	}
	if given > 0 {
		p.spend(m, -given)
		delete(p.records, m.id)
	}
	return given
}

// world has places, and requests over them whose messages may be dropped, repeated and delayed.
type world struct {
	*rapid.T
	slots    bool
	places   []*place
	requests []*Request
	of       map[*Request]*admitted
	late     []func() // messages that are still on their way
	charges  bool
}

func (w *world) odds(label string, n int) bool {
	return rapid.IntRange(1, n).Draw(w.T, label) == 1
}

// deliver carries one part of a round, or loses it.
func (w *world) deliver(p *Part) {
	at, m := w.places[p.Place], w.messageOf(p)
	lost := Answer{Err: &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: true, Err: errCut}}
	if !w.slots && p.Step == Undo && p.unsure {
		return // its take may come later: it is undone later
	}
	switch fate := rapid.SampledFrom([]string{"arrives", "arrives", "arrives", "arrives", "arrives", "arrives twice",
		"answer is lost", "is lost", "is refused", "is late"}).Draw(w.T, "fate"); fate {
	case "arrives twice":
		switch p.Got = at.do(m); {
		case p.Step == Undo && !w.slots:
			w.late = append(w.late, func() { at.do(m) })
		case p.Got.Err == nil: // as the same connection repeats it
			at.do(m)
		}
	case "arrives":
		p.Got = at.do(m)
	case "answer is lost":
		at.do(m)
		p.Got = lost
	case "is lost":
		p.Got = lost
	case "is refused":
		p.Got = Answer{Err: &limiter.StoreError{Cause: limiter.CauseBusy, Err: errCut}}
	case "is late":
		w.late = append(w.late, func() { at.do(m) })
		p.Got = lost
	}
}

// arrive lets some of what is late arrive.
func (w *world) arrive(all bool) {
	for len(w.late) > 0 && (all || w.odds("arrives late", 3)) {
		i := rapid.IntRange(0, len(w.late)-1).Draw(w.T, "which is late")
		w.late[i]()
		w.late = slices.Delete(w.late, i, i+1)
	}
}

// admitted is what became of the requests with one id, or of one without.
type admitted struct {
	request  limiter.Request
	weights  map[int]int64 // by place
	attempts int64
	numbered bool // its attempts have numbers
	kept     bool // what was taken stays after a failure
	// What became of its attempts so far: one was allowed, the error of one says that it may have been applied.
	allowed bool
	unknown bool
}

// A request over several places is charged at all of them or at none, and once, whatever becomes of its messages, of
// its repeats and of other requests, as soon as all undos are done. A repeat completes one whose parts are Kept.
func TestModel_AllOrNothing(t *testing.T) {
	again := 0
	all := func(rt *rapid.T) {
		w := &world{T: rt, slots: rapid.Bool().Draw(rt, "slots")}
		for range rapid.IntRange(2, 4).Draw(rt, "places") {
			w.places = append(w.places, &place{limit: int64(rapid.IntRange(1, 6).Draw(rt, "limit")), slot: w.slots,
				names: map[string]int64{}, records: map[string]*record{}, held: map[*admitted]int64{}})
		}
		w.begin()
		w.run(w.requests)
		w.finish()
		w.check()
		if slices.ContainsFunc(w.requests, func(r *Request) bool { return strings.HasSuffix(r.Name, "'") }) {
			again++
		}
	}
	for range 200 { // of a hundred worlds each
		rapid.Check(t, all)
	}
	if again == 0 {
		t.Error("no request lost a race and was tried again")
	}
}

// begin makes the requests. Some are attempts at the same one.
func (w *world) begin() {
	w.of = map[*Request]*admitted{}
	for i := range rapid.IntRange(1, 4).Draw(w.T, "requests") {
		a := &admitted{weights: map[int]int64{}}
		for k, p := range w.places {
			weight := int64(rapid.IntRange(0, 3).Draw(w.T, "weight"))
			if len(a.weights) > 0 && w.odds("left out", 3) {
				continue
			}
			a.weights[k] = weight
			a.request.Asks = append(a.request.Asks, limiter.Ask{Key: limiter.Key(fmt.Sprintf("{%d}", k)), Weight: weight,
				Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: p.limit, Window: 1000}})
		}
		if w.odds("charge", 4) {
			a.request.Op, w.charges = limiter.OpCharge, true
		}
		attempts := 1
		named := rapid.Bool().Draw(w.T, "named") // by its caller, who may repeat it
		if named {
			attempts = rapid.IntRange(1, 3).Draw(w.T, "attempts")
		}
		if named || !w.slots {
			a.request.ID = fmt.Sprint("id ", i)
		}
		a.kept = named && !w.slots && (len(a.weights) == 1 || a.request.Op == limiter.OpCharge)
		a.numbered = named && !a.kept
		for range attempts {
			w.attempt(a)
		}
	}
}

// attempt begins an attempt at a request.
func (w *world) attempt(a *admitted) *Request {
	req := a.request
	a.attempts++
	if a.numbered {
		req.Attempt = a.attempts
	}
	r := New(&req, Options{LookFirst: w.slots, Place: func(a *limiter.Ask) int { return int(a.Key[1] - '0') }})
	for _, p := range r.Parts {
		p.Kept = a.kept
	}
	r.Name = fmt.Sprint(req.ID, " ", len(w.requests))
	w.requests, w.of[r] = append(w.requests, r), a
	return r
}

// run delivers the messages of requests in any order until these are done.
func (w *world) run(requests []*Request) {
	var waiting []*Part
	for _, r := range requests {
		waiting = append(waiting, r.round...)
	}
	under := map[*Request]int{}
	for _, p := range waiting {
		under[p.Of]++
	}
	for len(waiting) > 0 {
		w.arrive(false)
		i := rapid.IntRange(0, len(waiting)-1).Draw(w.T, "which")
		p := waiting[i]
		waiting = slices.Delete(waiting, i, i+1)
		w.deliver(p)
		for _, at := range w.places {
			if at.used < 0 || at.used > at.limit && !w.charges {
				w.Fatalf("%d used of %d", at.used, at.limit)
			}
		}
		if under[p.Of]--; under[p.Of] == 0 {
			p.Of.advance()
			waiting, under[p.Of] = append(waiting, p.Of.round...), len(p.Of.round)
			if p.Of.done() {
				w.answered(p.Of)
			}
		}
	}
}

// answered notes the answer of a request.
func (w *world) answered(r *Request) {
	a, res := w.of[r], limiter.Result{}
	var se *limiter.StoreError
	if errors.As(r.Answer(&res), &se) {
		if a.unknown = a.unknown || se.Unknown; !se.Unknown && a.attempts == 1 {
			w.holds(a, false, "after an error that says that nothing is charged")
		}
		return
	}
	a.allowed = a.allowed || res.Allowed
	denies := slices.ContainsFunc(res.Limits, func(d limiter.Decision) bool { return !d.Allowed })
	if len(res.Limits) != r.asks || res.Allowed == denies {
		w.Errorf("%s: %+v", r.Name, res)
	}
}

// finish repeats what was not undone until that is confirmed, and for as long as messages may be late.
func (w *world) finish() {
	var undos []func()
	for _, r := range w.requests {
		for _, p := range r.left {
			at, m := w.places[p.Place], w.messageOf(p)
			undos = append(undos, func() { at.do(m) })
		}
	}
	for _, undo := range undos {
		if w.arrive(false); w.odds("undone early", 2) {
			undo()
		}
	}
	w.arrive(true)
	for _, undo := range undos {
		undo()
	}
}

// check compares what the places hold with what was admitted. A repeat completes what is kept after a failure.
func (w *world) check() {
	all := map[*admitted]bool{}
	for _, r := range slices.Clone(w.requests) {
		a := w.of[r]
		if all[a] {
			continue
		}
		all[a] = true
		if a.kept && a.unknown && !a.allowed {
			Run([]*Request{w.attempt(a)}, func(round []*Part) {
				for _, p := range round {
					p.Got = w.places[p.Place].do(w.messageOf(p))
				}
			})
			w.answered(w.requests[len(w.requests)-1])
		}
		w.holds(a, a.allowed, "at the end")
	}
}

// holds fails the test unless all places of a request hold what it asks for, or none does.
func (w *world) holds(a *admitted, all bool, when string) {
	for k, p := range w.places {
		want := a.weights[k]
		if !all {
			want = 0
		}
		if p.held[a] != want {
			w.Errorf("place %d holds %d of %q %s, want %d", k, p.held[a], a.request.ID, when, want)
		}
	}
}
