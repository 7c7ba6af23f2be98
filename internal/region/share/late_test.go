package share

import (
	"slices"
	"testing"

	"sluice/limiter"
)

// A region whose nodes all stood still tells nobody that it holds what has ended meanwhile.
func TestAnswer_ALoanThatHasEndedIsNotHeld(t *testing.T) {
	p := newPair()
	now := p.lend(t)
	lost := NewState(&p.eu, nil, now)
	if a := p.taker.Answer(&p.us, lost.Message(&p.eu, "us", p.specs, now), p.specs, now); len(a.Held[0].Held) == 0 {
		t.Errorf("it holds %+v, want what it has borrowed", a.Held)
	}
	now += p.us.Term + p.us.Valid + p.us.Skew + p.specs[rule].Life
	a := p.taker.Answer(&p.us, lost.Message(&p.eu, "us", p.specs, now), p.specs, now)
	if !a.HasHeld || len(a.Held[0].Held) > 0 {
		t.Errorf("it holds %+v, want nothing", a.Held)
	}
}

// A region that learns that its state is an old one still tells a lender what it had borrowed.
func TestAccept_AnOldStateStillHoldsWhatItHadBorrowed(t *testing.T) {
	p := newPair()
	now := p.lend(t)
	p.taker.Accept(&p.us, &Answer{From: "eu", Epoch: p.lender.Epoch, For: p.taker.Epoch, Known: p.taker.Epoch + 1},
		p.specs, now, now)
	if use, _ := p.use(t, now); p.taker.Lost == nil || use > p.us.least(128) {
		t.Errorf("it is not a new state, or spends %d", use)
	}
	lost := NewState(&p.eu, nil, now)
	a := p.taker.Answer(&p.us, lost.Message(&p.eu, "us", p.specs, now), p.specs, now)
	if len(a.Held) != 1 || a.Held[0].Held.Units(128) == 0 {
		t.Errorf("it holds %+v, want what it has borrowed", a.Held)
	}
}

// Two regions that are started again together, with what their Redis had kept, spend no more than the limit: what one
// has borrowed and spent counts on.
func TestNew_RegionsThatStartTogetherWaitForWhatIsSpent(t *testing.T) {
	p := newPair()
	now := p.lend(t) // and us spends it
	p.lender, p.taker = NewState(&p.eu, p.lender, now), NewState(&p.us, p.taker, now)
	a := p.taker.Answer(&p.us, p.lender.Message(&p.eu, "us", p.specs, now), p.specs, now)
	p.lender.Accept(&p.eu, a, p.specs, now, now)
	use, _ := p.lender.Use(&p.eu, rule, p.specs[rule], now)
	if p.lender.Lost != nil || use.Units(128) > 2 {
		t.Errorf("us has spent 126 of 128 units, and eu may spend %d", use.Units(128))
	}
}

// An answer to a late message grants for a time that is over. What the region was using until then is held as long as
// what it has spent counts.
func TestAccept_ALateGrantDoesNotShortenALoan(t *testing.T) {
	p := newPair()
	now := p.lend(t)
	b := p.taker.Rules[rule].Borrowed["eu"]
	held := b.held()
	late := &Answer{From: "eu", Epoch: p.lender.Epoch, For: p.taker.Epoch, Known: p.taker.Epoch, Term: p.us.Term,
		Grants: []Grant{{Rule: rule, Number: b.Number + 1, Spans: b.Granted.Last(b.Granted.Size() / 2)}}}
	p.taker.Accept(&p.us, late, p.specs, now-60_000, now)
	p.taker.Tick(&p.us, p.specs, nil, nil, now)
	if got := b.held(); !slices.Equal(got, held) {
		t.Errorf("it tells that it holds %v at once, want %v", got, held)
	}
}

// What a region says that it holds when all loans have certainly ended is spent by its owner already.
func TestAccept_WhatIsHeldTooLateIsNotLent(t *testing.T) {
	p := newPair()
	p.lender = NewState(&p.eu, nil, begins)
	m := p.lender.Message(&p.eu, "us", p.specs, begins)
	a := &Answer{From: "us", Epoch: p.taker.Epoch, For: m.Epoch, Known: m.Epoch, Term: 3000, HasHeld: true,
		Held: []Ask{{Rule: rule, Number: 3, Held: p.eu.own()}}}
	now := begins + p.eu.Term + p.eu.Skew + p.eu.Valid + p.specs[rule].Life
	before, _ := p.lender.Use(&p.eu, rule, p.specs[rule], now)
	p.lender.Accept(&p.eu, a, p.specs, now, now)
	after, _ := p.lender.Use(&p.eu, rule, p.specs[rule], now)
	if before.Size() != p.eu.own().Size() || after.Size() != before.Size() || p.lender.Lost != nil {
		t.Errorf("it may spend %v and then %v, want its part both times", before, after)
	}
}

// After a loss two regions may say that they hold the same, one of them wrongly. Neither is granted it.
func TestAnswer_WhatTwoRegionsHoldIsGrantedToNeither(t *testing.T) {
	names := []string{"ap", "eu", "us"}
	c := Config{Self: "eu", Regions: names, Prefix: "sl:", Interval: 1000, Term: 3000, Valid: 300, Skew: 1000}
	specs := map[int64]Spec{rule: {Units: 300, Life: 10_000}}
	s := NewState(&c, nil, begins)
	own := c.own()[0]
	held := map[string]Spans{"ap": {{own.From + 1000, own.To}}, "us": {{own.From + 2000, own.To - 1000}}}
	for name, spans := range held {
		s.Accept(&c, &Answer{From: name, Epoch: 1, For: s.Epoch, Known: s.Epoch, Term: 3000, HasHeld: true,
			Held: []Ask{{Rule: rule, Number: 3, Held: spans}}}, specs, begins, begins+1)
	}
	s.Rules[rule].Keep = own.From
	var granted Spans
	for name, spans := range held {
		demand := map[int64]int64{rule: 1000}
		a := s.Answer(&c, &Message{Version: Version, From: name, To: "eu", Prefix: "sl:", Regions: names, Epoch: 1,
			Yours: s.Epoch, Demand: demand, Asks: []Ask{{Rule: rule, Number: 4, Held: spans, Want: Whole}}}, specs, begins+2)
		if len(a.Grants) != 1 || len(a.Grants[0].Spans.And(held["us"])) > 0 {
			t.Errorf("%s is granted %+v, of which both hold %v", name, a.Grants, held["us"])
		} else {
			granted = granted.Plus(a.Grants[0].Spans)
		}
	}
	if len(granted) == 0 {
		t.Error("nothing was granted")
	}
}

// pair is two regions of which eu lends to us, without anything that goes wrong by itself.
type pair struct {
	eu, us Config
	specs  map[int64]Spec
	lender *State
	taker  *State
}

const begins = 1_000_000

func newPair() *pair {
	names := []string{"eu", "us"}
	p := &pair{
		eu:    Config{Self: "eu", Regions: names, Prefix: "sl:", Interval: 1000, Term: 3000, Valid: 300, Skew: 1000},
		specs: map[int64]Spec{rule: {Units: 128, Life: 10_000, New: true, Marked: begins + 10_000}},
	}
	p.us = p.eu
	p.us.Self = "us"
	p.lender, p.taker = NewState(&p.eu, nil, begins), NewState(&p.us, nil, begins)
	p.lender.Lost, p.taker.Lost = nil, nil
	return p
}

// tell sends what us has to say, and delivers the answer.
func (p *pair) tell(now int64) (*Message, *Answer) {
	m := p.taker.Message(&p.us, "eu", p.specs, now)
	a := p.lender.Answer(&p.eu, m, p.specs, now)
	p.taker.Accept(&p.us, a, p.specs, now, now)
	return m, a
}

// lend lets us, which is asked for everything, borrow all that eu does not keep.
func (p *pair) lend(t *testing.T) (now int64) {
	t.Helper()
	for now = begins; now < begins+30_000; now += 500 {
		p.taker.Tick(&p.us, p.specs, map[int64]int64{rule: 1000}, nil, now)
		p.tell(now)
		p.lender.Received["us"] = &Report{At: now, Demand: map[int64]int64{rule: 1000}}
		p.taker.Received["eu"] = &Report{At: now}
		p.lender.Tick(&p.eu, p.specs, map[int64]int64{}, nil, now)
	}
	if use, _ := p.taker.Use(&p.us, rule, p.specs[rule], now); use.Units(128) != 126 {
		t.Fatalf("us may spend %d of 128", use.Units(128))
	}
	return now
}

func (p *pair) use(t *testing.T, now int64) (units, until int64) {
	t.Helper()
	use, until := p.taker.Use(&p.us, rule, p.specs[rule], now)
	return use.Units(128), until
}

// A late answer, or one to what the region said before it lost its state, changes nothing.
func TestAccept_OfALateAnswerChangesNothing(t *testing.T) {
	for name, change := range map[string]func(p *pair, a *Answer){
		"to another epoch":       func(p *pair, _ *Answer) { p.taker.Epoch++ },
		"of an epoch before":     func(p *pair, _ *Answer) { p.taker.Known["eu"]++ },
		"of a grant before":      func(_ *pair, a *Answer) { a.Grants[0].Number-- },
		"with more than granted": func(p *pair, _ *Answer) { p.taker.Rules[rule].Borrowed["eu"].Granted = nil },
		"of another one's part":  func(_ *pair, a *Answer) { a.Grants[0].Spans = Spans{Segment(1, 2)} },
	} {
		p := newPair()
		now := p.lend(t)
		_, a := p.tell(now)
		a.Grants[0].Spans = Spans{{Segment(0, 2).To - 100_000, Segment(0, 2).To}}
		change(p, a)
		before, until := p.use(t, now)
		if name == "of another one's part" {
			a.Grants[0].Number++
			before = 64
		}
		p.taker.Accept(&p.us, a, p.specs, now+2000, now+2000)
		if units, till := p.use(t, now); units != before || till != until && before != 64 {
			t.Errorf("%s: it may spend %d until %d, before it %d until %d", name, units, till, before, until)
		}
		if own := p.taker.Rules[rule].Borrowed["eu"].Granted.And(p.us.own()); len(own) > 0 {
			t.Errorf("%s: it has borrowed its own %v", name, own)
		}
	}
}

// A loan counts from when it was asked for, and never for longer than the borrower thinks.
func TestAccept_ALoanCountsFromTheRequest(t *testing.T) {
	p := newPair()
	now := p.lend(t)
	m := p.taker.Message(&p.us, "eu", p.specs, now)
	a := p.lender.Answer(&p.eu, m, p.specs, now+100)
	a.Term = 1_000_000
	p.taker.Accept(&p.us, a, p.specs, now, now+2900)
	if _, until := p.use(t, now+2900); until != now+p.us.Term {
		t.Errorf("asked for at %d, it has it until %d", now, until)
	}
	if units, _ := p.use(t, now+p.us.Term); units != 64 {
		t.Errorf("after that it may spend %d", units)
	}
	l := p.lender.Rules[rule].Lent["us"].Leases[0]
	if least := now + 100 + p.eu.Term + p.eu.Valid + p.eu.Skew + p.specs[rule].Life; l.Until < least {
		t.Errorf("eu uses it again at %d, before %d", l.Until, least)
	}
}

// A late message gives nothing back, and asks for nothing.
func TestAnswer_ToALateMessageChangesNothing(t *testing.T) {
	for name, change := range map[string]func(m *Message){
		"of an epoch before":   func(m *Message) { m.Epoch-- },
		"to another epoch":     func(m *Message) { m.Yours-- },
		"about a grant before": func(m *Message) { m.Asks[0].Number-- },
	} {
		p := newPair()
		now := p.lend(t)
		m, _ := p.tell(now)
		m.Asks[0].Held, m.Demand = nil, map[int64]int64{rule: 7}
		change(m)
		before := p.lender.Rules[rule].lent().Size()
		a := p.lender.Answer(&p.eu, m, p.specs, now+100)
		if got := p.lender.Rules[rule].lent().Size(); got != before {
			t.Errorf("%s: %d parts are lent, before it %d", name, got, before)
		}
		if name == "about a grant before" {
			continue
		}
		if len(a.Grants) > 0 {
			t.Errorf("%s: grants %v", name, a.Grants)
		}
		if demand := p.lender.Received["us"].Demand[rule]; demand == 7 && name == "of an epoch before" {
			t.Errorf("%s: its demand counts", name)
		}
	}
}

// A region that lost its state waits for the word of every other one, whatever is said twice.
func TestAccept_EachRegionMustSayWhatItHolds(t *testing.T) {
	names := []string{"asia", "eu", "us"}
	c := Config{Self: "eu", Regions: names, Prefix: "sl:", Interval: 1000, Term: 3000, Valid: 300, Skew: 1000}
	s := NewState(&c, nil, begins)
	specs := map[int64]Spec{rule: {Units: 300, Life: 1000}}
	a := &Answer{From: "us", Epoch: 1, For: s.Epoch, HasHeld: true, Held: []Ask{{Rule: rule, Number: 3,
		Held: Spans{{Segment(1, 3).To - 9, Segment(1, 3).To}}}}}
	for range 2 {
		s.Accept(&c, a, specs, begins, begins)
	}
	if s.Lost == nil {
		t.Fatal("asia has said nothing")
	}
	s.Accept(&c, &Answer{From: "asia", Epoch: 1, For: s.Epoch, HasHeld: true}, specs, begins, begins)
	use, _ := s.Use(&c, rule, specs[rule], begins)
	if s.Lost != nil || use.Size() != Segment(1, 3).To-Segment(1, 3).From-9 || s.Rules[rule].Lent["us"].Number < 4 {
		t.Errorf("it may spend %v", use)
	}
}

// A region that has lost its state gives nothing back that it had before, because it does not know what it has spent.
func TestAnswer_WhatWasLostIsNotGivenBack(t *testing.T) {
	p := newPair()
	now := p.lend(t)
	before := p.lender.Rules[rule].Lent["us"].Leases
	lent, until := spansOfLeases(before), before[0].Until
	p.taker = NewState(&p.us, nil, now)
	p.taker.Lost, p.taker.Received["eu"] = nil, &Report{At: now}
	p.taker.Demand[rule] = 1000
	p.lender.Tick(&p.eu, p.specs, map[int64]int64{rule: 1000}, nil, now) // it wants its part itself
	for range 4 {
		p.tell(now)
	}
	if got := p.lender.Rules[rule].lent(); len(lent.Minus(got)) > 0 {
		t.Errorf("of %v, which us may have spent, %v are lent", lent, got)
	}
	p.lender.Tick(&p.eu, p.specs, nil, nil, until)
	if got := p.lender.Rules[rule].lent(); len(got) > 0 {
		t.Errorf("after the loan %v are lent", got)
	}
}

func spansOfLeases(leases []Lease) (all Spans) {
	for _, l := range leases {
		all = all.Plus(l.Spans)
	}
	return all
}

// What no bucket has used need not wait; everything else does.
func TestTick_FreesWhatNoBucketHasUsed(t *testing.T) {
	for name, c := range map[string]struct {
		level  int64
		change func(p *pair, m *Marks)
		want   int64 // units that are free
	}{
		"nothing is used": {want: 62},
		"some is used":    {level: 20, want: 44},
		"all is used":     {level: 64, want: 0},
		"more is used":    {level: limiter.MaxExact, want: 0},
		"by the key of a tier": {level: 20, change: func(_ *pair, m *Marks) {
			m.Rules[rule] = []Mark{{Count: 1280, Level: 200}}
		}, want: 44},
		"of a bucket": {level: 1, change: func(_ *pair, m *Marks) {
			m.Rules[rule] = []Mark{{Count: 1280, Burst: 128, Level: 20}}
		}, want: 44},
		"nodes do not know yet":  {change: func(_ *pair, m *Marks) { m.At-- }, want: 0},
		"without marks":          {change: func(_ *pair, m *Marks) { m.At = -1 }, want: 0},
		"spent before the marks": {change: func(p *pair, _ *Marks) { p.lender.Began = begins + 9500 }, want: 0},
	} {
		p := newPair()
		p.lender.Received["us"] = &Report{At: begins, Demand: map[int64]int64{rule: 1000}}
		p.lender.Tick(&p.eu, p.specs, map[int64]int64{}, nil, begins)
		now := begins + p.eu.Valid + p.eu.Skew
		p.lender.Received["us"].At = now
		m := &Marks{At: now, Rules: map[int64][]Mark{}}
		if c.level > 0 {
			m.Rules[rule] = []Mark{{Count: 128, Level: c.level}}
		}
		if c.change != nil {
			c.change(p, m)
		}
		if !p.lender.Waits() {
			t.Fatalf("%s: nothing waits", name)
		}
		p.lender.Tick(&p.eu, p.specs, nil, m, now)
		r, sp := p.lender.Rules[rule], p.specs[rule]
		if got := r.lendable(&p.eu, sp, now).Units(128); got != c.want {
			t.Errorf("%s: %d units are free, want %d", name, got, c.want)
		}
		later := begins + p.eu.Valid + p.eu.Skew + sp.Life
		if got := r.lendable(&p.eu, sp, later-1).Units(128); got != c.want {
			t.Errorf("%s: before what was spent is over, %d units are free, want %d", name, got, c.want)
		}
		if got := r.lendable(&p.eu, sp, later).Units(128); got != 62 {
			t.Errorf("%s: after what was spent is over, %d units are free", name, got)
		}
	}
}

// A borrower gives back at once what no bucket has used. Once the loan has ended it does not cover what was used.
func TestTick_ABorrowerGivesBackAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		late, level, want int64
	}{
		"nothing is used":          {want: 0},
		"its own part covers it":   {level: 64, want: 0},
		"some of the loan is used": {level: 100, want: 36},
		"the loan has ended":       {late: 4000, level: 100, want: 62},
	} {
		p := newPair()
		now := p.lend(t)
		p.tell(now)
		p.taker.Received["eu"] = &Report{At: now, Demand: map[int64]int64{rule: 1000}}
		p.taker.Demand = map[int64]int64{}
		p.taker.Tick(&p.us, p.specs, map[int64]int64{}, nil, now)
		now += p.us.Valid + p.us.Skew + c.late
		m := &Marks{At: now, Rules: map[int64][]Mark{rule: {{Count: 128, Level: c.level}}}}
		p.taker.Tick(&p.us, p.specs, nil, m, now)
		if got := p.taker.Rules[rule].Borrowed["eu"].held().Units(128); got != c.want {
			t.Errorf("%s: it holds %d units, want %d", name, got, c.want)
		}
	}
}

// What is free covers nothing any more, whether it is lent, free for longer, or has just been found.
func TestFree_NothingIsCountedTwice(t *testing.T) {
	own := Segment(1, 2)
	units := func(from, to int64) Spans { return Spans{{own.From + from*Whole/128, own.From + to*Whole/128}} }
	hold := func(from, to int64) Hold { return Hold{Spans: units(from, to), Since: begins, Life: 10_000} }
	gone := hold(34, 64)
	gone.Free = true
	for name, c := range map[string]struct {
		rule        Rule
		level, want int64 // units that are free then
	}{
		"alone": {rule: Rule{Withheld: []Hold{hold(2, 64)}}, level: 20, want: 44},
		"beside what is lent": {rule: Rule{Withheld: []Hold{hold(2, 34)},
			Lent: map[string]*Lent{"eu": {Leases: []Lease{{Spans: units(34, 64), Until: begins * 2}}}}}, level: 20, want: 14},
		"beside what is free": {rule: Rule{Withheld: []Hold{hold(2, 34), gone}}, level: 20, want: 44},
		"beside a loan": {rule: Rule{Withheld: []Hold{hold(2, 64)}, Borrowed: map[string]*Borrowed{
			"eu": {Granted: Spans{Segment(0, 2)}, Until: begins * 2}}}, level: 84, want: 44},
		"beside what goes back": {rule: Rule{Withheld: []Hold{hold(34, 64)}, Borrowed: map[string]*Borrowed{
			"eu": {Granted: Spans{Segment(0, 2)}, Until: begins * 2,
				Leaving: []Hold{{Spans: Spans{Segment(0, 2)}, Since: begins}}},
		}}, level: 50, want: 64 + 14},
	} {
		p := newPair()
		p.taker.free(&p.us, &c.rule, []Mark{{Count: 128, Level: c.level}}, begins+5000, begins+5000)
		got := int64(0)
		holds := c.rule.Withheld
		for _, b := range c.rule.Borrowed {
			holds = append(holds, b.Leaving...)
		}
		for _, h := range holds {
			if h.Free {
				got += h.Spans.Units(128)
			}
		}
		if got != c.want {
			t.Errorf("%s: %d units are free, want %d", name, got, c.want)
		}
	}
}
