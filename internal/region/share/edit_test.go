package share

import (
	"maps"
	"testing"
)

// lenderUse is what eu may spend.
func (p *pair) lenderUse(now int64) int64 {
	use, _ := p.lender.Use(&p.eu, rule, p.specs[rule], now)
	return use.Units(128)
}

// A rule that is off for a while ends its loans. What was spent under them counts, and is not given back before.
func TestTick_ARuleThatIsOffForAWhileGivesNothingBack(t *testing.T) {
	p := newPair()
	now := p.lend(t)
	sp := p.specs[rule]
	sp.Life = 3_600_000 // an hour
	p.specs[rule] = sp
	p.tell(now)
	on := maps.Clone(p.specs)
	// us has lent something too, not long ago, so that it keeps what it knows of the rule
	p.taker.Rules[rule].Lent["eu"] = &Lent{Leases: []Lease{{Spans: Spans{{Whole - 1, Whole}}, Until: now + sp.Life}}}
	spent := now + 2000 // us spends all under the loan until it ends
	delete(p.specs, rule)
	for ; now < spent+60_000; now += 500 {
		p.taker.Tick(&p.us, p.specs, nil, nil, now)
		p.tell(now)
		p.lender.Tick(&p.eu, p.specs, nil, nil, now)
	}
	p.specs = on
	p.taker.Demand, p.lender.Demand = map[int64]int64{}, map[int64]int64{rule: 1000} // and demand has moved
	for ; now < spent+sp.Life; now += 60_000 {
		p.taker.Tick(&p.us, p.specs, nil, nil, now)
		p.tell(now)
		p.lender.Tick(&p.eu, p.specs, nil, nil, now)
		if got := p.lenderUse(now); got > 2 {
			t.Fatalf("%d s after it ended eu may spend %d, but what us has spent of it counts for an hour",
				(now-spent)/1000, got)
		}
	}
}

// A loan that was made before an edit which lets things count for longer ends as late as that.
func TestTick_ALoanOfBeforeALongerWindowEndsLater(t *testing.T) {
	p := newPair()
	now := p.lend(t)
	p.tell(now)
	sp := p.specs[rule]
	sp.Life = 3_600_000
	p.specs[rule] = sp // and us is cut off; it spends until its loan ends
	_, until := p.use(t, now)
	for ; now < until+sp.Life; now += 60_000 {
		p.lender.Tick(&p.eu, p.specs, nil, nil, now)
		if got := p.lenderUse(now); got > 2 {
			t.Fatalf("%d s after the loan ended eu may spend %d, but what us has spent of it counts for an hour",
				(now-until)/1000, got)
		}
	}
}

// What another region holds of a rule that this one, which has lost its state, does not know for now is kept.
func TestAccept_WhatIsHeldOfAnUnknownRuleIsKept(t *testing.T) {
	p := newPair()
	now := p.lend(t)
	p.lender = NewState(&p.eu, nil, now)
	p.taker.Known["eu"], p.taker.Received["eu"] = p.lender.Epoch, nil
	m := p.lender.Message(&p.eu, "us", nil, now)
	p.lender.Accept(&p.eu, p.taker.Answer(&p.us, m, p.specs, now), nil, now, now)
	if p.lender.Lost != nil {
		t.Fatal("us has not said what it holds")
	}
	now += 20_000
	p.lender.Tick(&p.eu, nil, nil, nil, now)
	if got := p.lenderUse(now); got > 2 {
		t.Errorf("eu may spend %d of 128, us has 62 of them", got)
	}
	p.tell(now)
	p.taker.Tick(&p.us, p.specs, map[int64]int64{}, nil, now)
	p.lender.Demand = map[int64]int64{rule: 1000}
	for range 100 {
		now += 500
		p.taker.Tick(&p.us, p.specs, nil, nil, now)
		p.tell(now)
		p.lender.Tick(&p.eu, p.specs, nil, nil, now)
	}
	if got := p.lenderUse(now); got < 64 {
		t.Errorf("after us has given all back eu may spend %d of 128", got)
	}
}

// A loan is not ended by what the lender heard before, if the message that renews it says that it is needed.
func TestAnswer_ALoanGoesByTheDemandOfTheMessage(t *testing.T) {
	p := newPair()
	now := p.lend(t)
	p.lender.Received["us"] = &Report{At: now} // us was asked for nothing for a while
	p.lender.Tick(&p.eu, p.specs, map[int64]int64{rule: 20}, nil, now)
	p.taker.Received["eu"] = &Report{At: now, Demand: map[int64]int64{rule: 20}}
	p.taker.Tick(&p.us, p.specs, map[int64]int64{rule: 1000}, nil, now)
	before, _ := p.use(t, now)
	p.tell(now)
	if got, _ := p.use(t, now); before < 100 || got < 90 {
		t.Errorf("us may spend %d, %d before its message: 64 is its own part", got, before)
	}
}
