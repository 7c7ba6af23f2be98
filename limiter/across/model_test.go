package across

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
)

// place is a virtual place with one limit, as a slot of a cluster or as a region.
type place struct {
	limit, used int64
	slot        bool
	names       map[string]int64   // of a slot: what was booked under a name; ended: nothing may be any more
	records     map[string]*record // by the id of the request
}

const ended = -1

// record is what a request with an id took. In a slot it is of one attempt until another one confirms it; in a region
// several attempts hold it.
type record struct {
	units     int64
	by        string
	confirmed bool
	holders   map[int64]bool
}

// message is one part of a round on its way.
type message struct {
	step    Step
	op      limiter.Op
	id      string
	attempt int64
	name    string
	weight  int64
}

func messageOf(p *Part) message {
	return message{p.Step, p.Request.Op, p.Request.ID, p.Request.Attempt, p.Of.Name, p.Request.Asks[0].Weight}
}

// do carries out a message.
func (p *place) do(m message) Answer {
	d := limiter.Decision{Allowed: true, Limit: p.limit}
	answer := Answer{Result: &limiter.Result{At: 1}, Firm: !p.slot}
	r, fits := p.records[m.id], p.used+m.weight <= p.limit || m.op == limiter.OpCharge
	_, named := p.names[m.name]
	switch {
	case m.step == Undo:
		d.Refunded = p.undo(m, r)
	case r != nil:
		answer.Result.Replayed, r.confirmed = true, r.confirmed || m.step == Confirm
		answer.Firm = answer.Firm || r.confirmed
		if m.step == Ask && m.attempt != 0 {
			r.holders[m.attempt], answer.Took = true, true
		}
	case !fits, m.step == Look, m.weight == 0:
		d.Allowed = fits
	case p.slot && named:
		return Answer{Err: &limiter.StoreError{Cause: limiter.CauseCanceled, Err: errCut}}
	default:
		p.used += m.weight
		answer.Took, p.names[m.name] = true, m.weight
		if m.id != "" {
			p.records[m.id] = &record{units: m.weight, by: m.name, confirmed: m.step == Confirm,
				holders: map[int64]bool{m.attempt: true}}
		}
	}
	d.Remaining = max(0, p.limit-p.used)
	answer.Result.Allowed, answer.Result.Limits = d.Allowed, []limiter.Decision{d}
	return answer
}

// undo gives back what a message took, once, unless another attempt relies on it.
func (p *place) undo(m message, r *record) (given int64) {
	mine := false
	if p.slot {
		given, mine = p.names[m.name], m.id == "" || r != nil && r.by == m.name && !r.confirmed
		mine = mine && given > 0
		p.names[m.name] = ended
	} else if r != nil && r.holders[m.attempt] {
		delete(r.holders, m.attempt)
		given, mine = r.units, len(r.holders) == 0
	}
	if !mine {
		return 0
	}
	p.used -= given
	delete(p.records, m.id)
	return given
}

// world has places, and requests over them whose messages may be dropped, repeated and delayed.
type world struct {
	*rapid.T
	slots    bool
	places   []*place
	requests []*Request
	late     []func() // messages that are still on their way
	charges  bool
}

func (w *world) odds(label string, n int) bool {
	return rapid.IntRange(1, n).Draw(w.T, label) == 1
}

// deliver carries one part of a round, or loses it.
func (w *world) deliver(p *Part) {
	at, m := w.places[p.Place], messageOf(p)
	lost := Answer{Err: &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: true, Err: errCut}}
	if !w.slots && p.Step == Undo && p.unsure {
		return // its take may come later: it is undone later
	}
	switch fate := rapid.SampledFrom([]string{"arrives", "arrives", "arrives", "arrives", "arrives", "arrives twice",
		"answer is lost", "is lost", "is refused", "is late"}).Draw(w.T, "fate"); fate {
	case "arrives twice":
		if p.Got = at.do(m); p.Got.Err == nil && p.Step != Undo { // as the same connection repeats it
			at.do(m)
		}
		if p.Step == Undo {
			w.late = append(w.late, func() { at.do(m) })
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
	weights map[int]int64 // by place
	allowed bool
	failed  bool
}

// A request over several places is charged at all of them or at none, and once, whatever becomes of its messages and of
// other requests, as soon as all undos are done.
func TestModel_AllOrNothing(t *testing.T) {
	again := 0
	all := func(rt *rapid.T) {
		w := &world{T: rt, slots: rapid.Bool().Draw(rt, "slots")}
		for range rapid.IntRange(2, 4).Draw(rt, "places") {
			w.places = append(w.places, &place{limit: int64(rapid.IntRange(1, 6).Draw(rt, "limit")), slot: w.slots,
				names: map[string]int64{}, records: map[string]*record{}})
		}
		of := w.begin()
		w.run()
		w.finish()
		w.check(of)
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
func (w *world) begin() map[*Request]*admitted {
	of := map[*Request]*admitted{}
	for i := range rapid.IntRange(1, 4).Draw(w.T, "requests") {
		req := limiter.Request{}
		a := &admitted{weights: map[int]int64{}}
		for k, p := range w.places {
			weight := int64(rapid.IntRange(0, 3).Draw(w.T, "weight"))
			if len(req.Asks) > 0 && w.odds("left out", 3) {
				continue
			}
			a.weights[k] = weight
			req.Asks = append(req.Asks, limiter.Ask{Key: limiter.Key(fmt.Sprintf("{%d}", k)), Weight: weight,
				Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: p.limit, Window: 1000}})
		}
		attempts := rapid.IntRange(1, 3).Draw(w.T, "attempts")
		if attempts > 1 || !w.slots {
			req.ID = fmt.Sprint("id ", i)
		} else if w.odds("charge", 4) {
			req.Op, w.charges = limiter.OpCharge, true
		}
		for n := range attempts {
			if req.Attempt = 0; attempts > 1 && !w.slots {
				req.Attempt = int64(n + 1)
			}
			r := New(&req, Options{LookFirst: w.slots, Place: func(a *limiter.Ask) int { return int(a.Key[1] - '0') }})
			r.Name = fmt.Sprint(i, " ", n)
			w.requests, of[r] = append(w.requests, r), a
		}
	}
	return of
}

// run delivers the messages of all requests in any order until these are done.
func (w *world) run() {
	var waiting []*Part
	for _, r := range w.requests {
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
		}
	}
}

// finish repeats what was not undone until that is confirmed, and for as long as messages may be late.
func (w *world) finish() {
	var undos []func()
	for _, r := range w.requests {
		for _, p := range r.left {
			at, m := w.places[p.Place], messageOf(p)
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

// check compares what the places hold with what was admitted.
func (w *world) check(of map[*Request]*admitted) {
	all := map[*admitted]bool{}
	for _, r := range w.requests {
		a, res := of[r], limiter.Result{}
		all[a] = true
		if err := r.Answer(&res); err != nil {
			a.failed = true
			continue
		}
		a.allowed = a.allowed || res.Allowed
		denies := slices.ContainsFunc(res.Limits, func(d limiter.Decision) bool { return !d.Allowed })
		if len(res.Limits) != r.asks || res.Allowed == denies {
			w.Errorf("%s: %+v", r.Name, res)
		}
	}
	for k, p := range w.places {
		least, most := int64(0), int64(0)
		for a := range all {
			switch {
			case a.allowed:
				least, most = least+a.weights[k], most+a.weights[k]
			case a.failed && w.slots: // an attempt that failed may have confirmed the record of another one
				most += a.weights[k]
			}
		}
		if p.used < least || p.used > most {
			w.Errorf("place %d holds %d, want %d to %d", k, p.used, least, most)
		}
	}
}
