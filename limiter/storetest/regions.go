package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/limiter"
)

// RegionHarness creates the stores of regions.
type RegionHarness struct {
	// New returns a store with separate buckets, one of TwoRegions, whose time is clock, in ms.
	New func(t *testing.T, clock func() int64) limiter.Exporter
}

// TwoRegions are the regions of the worked cases.
var TwoRegions = limiter.Regions{Count: 2, Wait: 200}

// mostRegions is how many regions the suite has.
const mostRegions = 4

// Regions checks that counts which travel between regions end in the state that one region would have.
func Regions(t *testing.T, h RegionHarness) {
	for _, a := range limiter.Algorithms() {
		if a.Traits().Spans() {
			t.Run("EndAsOne/"+a.String(), func(t *testing.T) { regionsEndAsOne(t, h, a) })
			if decay := a.Traits().Decay; decay == limiter.DecayAtOnce || decay == limiter.DecaySliding {
				t.Run("Agree/"+a.String(), func(t *testing.T) { regionsAgree(t, h, a) })
			}
		}
	}
	RegionCases(t, h)
	Restores(t, h)
}

// RegionCases checks worked cases of two regions.
func RegionCases(t *testing.T, h RegionHarness) {
	clock := NewClock(1_795_000_000_000)
	two := func(t *testing.T) *regions {
		all := []limiter.Exporter{h.New(t, clock.Now), h.New(t, clock.Now)}
		return &regions{clock: clock, all: all, told: make([][]told, 2)}
	}
	for name, test := range map[string]func(*testing.T, *regions){
		"LateMessageOfAnEarlierIncarnation": lateAfterReset,
		"RefundAfterAResetElsewhere":        refundAfterReset,
		"ContradictionChangesNothing":       contradiction,
		"WritesThatAreLostStopNothing":      lostWrites,
		"LostExportComesAgain":              lostExport,
		"LeaseEndsWithConfirm":              confirmedExport,
		"HotBucketIsExportedOnce":           hotExport,
		"UnitOfAWindowThatIsOverIsDropped":  lateUnit,
		"ClockAheadMovesTheWindowOn":        clockAhead,
		"WindowsOfFirstHitBeginApart":       firstHitApart,
		"ResetReachesAnIdleRegion":          resetTravels,
		"ResetBooksInTheOrderOfTheNews":     resetBooksInOrder,
		"AHugeChargeHidesNothing":           hugeCharge,
		"AHugeChargeThatDrainsHidesNothing": hugeChargeDrains,
		"MoreThanAStoreHoldsIsReadable":     hugeSum,
		"PeersRestartIsNoSecondCharge":      restartedPeer,
		"AGuardHoldsARegionToItsShare":      guardedShare,
		"ColdShareIsAnEqualPart":            coldShare,
		"WhatWasAskedForIsTold":             deniedTravels,
	} {
		t.Run(name, func(t *testing.T) { test(t, two(t)) })
	}
	for _, a := range limiter.Algorithms() {
		if a.Traits().Spans() {
			t.Run("SpentByRegion/"+a.String(), func(t *testing.T) { spentByRegion(t, two(t), a) })
			t.Run("NewsSaysOfWhichLimit/"+a.String(), func(t *testing.T) { limitTravels(t, two(t), a) })
		}
	}
}

// told is sums on their way.
type told struct {
	from int
	what limiter.Exported
}

// regions are stores that exchange the sums of one ask.
type regions struct {
	clock *Clock
	all   []limiter.Exporter
	ask   limiter.Ask
	// told are all messages so far, by region.
	told [][]told
}

// as is the ask with a weight, which spans regions.
func (r *regions) as(w int64) limiter.Ask {
	a := r.ask
	a.Spans, a.Weight = true, w
	return a
}

// do runs one request in a region.
func (r *regions) do(t failer, at int, op limiter.Op, id string, w int64) limiter.Result {
	t.Helper()
	return do(t, r.all[at], op, id, r.as(w))
}

// export collects what a region has to say, and remembers it.
func (r *regions) export(t failer, at int, lease time.Duration) []told {
	t.Helper()
	sums, err := r.all[at].Export(context.Background(), 1000, lease)
	if err != nil {
		t.Fatalf("export: %v", err)
	}
	var out []told
	for _, s := range sums {
		if s.Key == r.ask.Key {
			out = append(out, told{at, s})
		}
	}
	r.told[at] = append(r.told[at], out...)
	return out
}

// apply delivers one message to a region.
func (r *regions) apply(t failer, to int, m told) limiter.Result {
	t.Helper()
	req := r.application(&m)
	var res limiter.Result
	if err := r.all[to].Do(context.Background(), &req, &res); err != nil {
		t.Fatalf("apply %+v: %v", m.what.Sums, err)
	}
	return res
}

// confirmAll ends the leases of all messages.
func (r *regions) confirmAll(t failer) {
	t.Helper()
	for at, ms := range r.told {
		var sums []limiter.Exported
		for _, m := range ms {
			sums = append(sums, m.what)
		}
		if err := r.all[at].Confirm(context.Background(), sums); err != nil {
			t.Fatalf("confirm: %v", err)
		}
	}
}

// flush delivers everything to everyone: in any order, with repetitions of old messages.
func (r *regions) flush(t *rapid.T) {
	var ms []told
	for at := range r.all {
		ms = append(ms, r.export(t, at, 0)...)
		if n := len(r.told[at]); n > 0 {
			ms = append(ms, r.told[at][n-1])
			ms = append(ms, r.told[at][rapid.IntRange(0, n-1).Draw(t, "an old one")])
		}
	}
	for i := range ms {
		j := rapid.IntRange(i, len(ms)-1).Draw(t, "next")
		ms[i], ms[j] = ms[j], ms[i]
	}
	for to, store := range r.all {
		var calls []limiter.Call
		for i := range ms {
			if ms[i].from != to {
				calls = append(calls, limiter.Call{Request: r.application(&ms[i])})
			}
		}
		store.DoAll(context.Background(), calls)
		for i := range calls {
			if calls[i].Err != nil {
				t.Fatalf("apply %+v: %v", calls[i].Request.Sums, calls[i].Err)
			}
		}
	}
}

// application is the request that applies a message.
func (r *regions) application(m *told) limiter.Request {
	return limiter.Request{
		Op: limiter.OpApply, ID: fmt.Sprintf("region %d", m.from), Asks: []limiter.Ask{r.as(0)}, Sums: &m.what.Sums,
	}
}

// some delivers some messages to some.
func (r *regions) some(t *rapid.T) {
	from := rapid.IntRange(0, len(r.all)-1).Draw(t, "from")
	r.export(t, from, 0)
	if len(r.told[from]) == 0 {
		return
	}
	for to := range r.all {
		if to != from && rapid.Bool().Draw(t, "arrives") {
			r.apply(t, to, r.told[from][rapid.IntRange(0, len(r.told[from])-1).Draw(t, "message")])
		}
	}
}

// charged is a named charge.
type charged struct {
	region int
	id     string
	over   bool // refunded or settled
}

// life is one run of regions, compared with one store that holds all their units.
type life struct {
	*regions
	one     limiter.Store
	charges []charged
	names   int
	// prompt: messages arrive before the clock moves, because the bucket counts units from their arrival on, or
	// its windows begin with them.
	prompt bool
	// refunds is how many refunds may have given back a part of a unit, of which other regions do not learn.
	refunds int64
}

func regionsEndAsOne(t *testing.T, h RegionHarness, a limiter.Algorithm) {
	clock := NewClock(clockMin)
	var stores []limiter.Exporter
	for range mostRegions {
		stores = append(stores, h.New(t, clock.Now))
	}
	one := h.New(t, clock.Now)
	rapid.Check(t, func(rt *rapid.T) {
		clock.Set(genOrigin.Draw(rt, "origin"))
		limit := drawLimit(rt, a)
		n := rapid.IntRange(2, mostRegions).Draw(rt, "regions")
		l := &life{one: one, regions: &regions{
			clock: clock, all: stores[:n], told: make([][]told, n), ask: newEntity().asks(0, limit)[0],
		}}
		decay := a.Traits().Decay
		l.prompt = decay == limiter.DecayDrain || decay == limiter.DecayEach || limit.Align == limiter.AlignFirstHit
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			l.step(rt)
			if d := drawStep(rt, limit, 0, false); d > 0 {
				if l.prompt {
					l.flush(rt)
				} else if rapid.Bool().Draw(rt, "some arrive") {
					l.some(rt)
				}
				if decay == limiter.DecayEach {
					l.charges = nil // other regions give back what was spent last
				}
				step(clock, d)
			}
		}
		l.flush(rt)
		l.compare(rt)
		clock.Advance(rapid.Int64Range(0, limit.Window).Draw(rt, "later"))
		l.compare(rt)
		l.confirmAll(rt)
	})
}

// step lets one region do something, and the one store the same.
func (l *life) step(t *rapid.T) {
	at := rapid.IntRange(0, len(l.all)-1).Draw(t, "region")
	w := min(drawWeight(t, l.ask.Limit), l.ask.Limit.Capacity())
	if l.prompt { // where what exceeds the capacity is dropped or merged, the order would matter
		l.flush(t)
		w = min(w, l.inOne(t, limiter.OpPeek, "", 1).Remaining)
	}
	switch rapid.IntRange(0, 9).Draw(t, "operation") {
	case 0:
		l.refundNamed(t)
	case 1:
		l.settle(t, w)
	case 2:
		if l.prompt || l.ask.Limit.Algorithm == limiter.FixedWindow {
			l.flush(t)
			units := l.do(t, at, limiter.OpRefund, "", w).Limits[0].Refunded
			l.inOne(t, limiter.OpRefund, "", units)
			l.charges = nil // some of their units are gone
			l.refunds++
		}
	case 3:
		l.flush(t)
		l.do(t, at, limiter.OpReset, "", 0)
		l.inOne(t, limiter.OpReset, "", 0)
		l.charges = nil
		l.flush(t)
	default:
		l.spend(t, at, w)
	}
}

// inOne runs a request in the one store.
func (l *life) inOne(t failer, op limiter.Op, id string, w int64) limiter.Decision {
	t.Helper()
	a := l.ask
	a.Weight = w
	return do(t, l.one, op, id, a).Limits[0]
}

func (l *life) spend(t *rapid.T, at int, w int64) {
	c := charged{region: at}
	if rapid.Bool().Draw(t, "named") {
		l.names++
		c.id = fmt.Sprint(l.names)
		l.charges = append(l.charges, c)
	}
	op := rapid.SampledFrom([]limiter.Op{limiter.OpTake, limiter.OpCharge}).Draw(t, "op")
	if res := l.do(t, at, op, c.id, w); op == limiter.OpCharge || res.Allowed {
		l.inOne(t, limiter.OpCharge, c.id, w)
	}
}

// named draws a charge that was neither refunded nor settled.
func (l *life) named(t *rapid.T) *charged {
	i := slices.IndexFunc(l.charges, func(c charged) bool { return !c.over })
	if i < 0 {
		return nil
	}
	if j := rapid.IntRange(0, len(l.charges)-1).Draw(t, "charge"); !l.charges[j].over {
		i = j
	}
	l.charges[i].over = true
	return &l.charges[i]
}

func (l *life) refundNamed(t *rapid.T) {
	if c := l.named(t); c != nil {
		got := l.do(t, c.region, limiter.OpRefund, c.id, 0).Limits[0].Refunded
		if want := l.inOne(t, limiter.OpRefund, c.id, 0).Refunded; got != want && !l.drains() {
			t.Fatalf("a region gave back %d, one gives back %d", got, want)
		}
		l.refunds++
	}
}

func (l *life) settle(t *rapid.T, w int64) {
	if c := l.named(t); c != nil {
		l.do(t, c.region, limiter.OpSettle, c.id, w)
		l.inOne(t, limiter.OpSettle, c.id, w)
		l.refunds++
	}
}

// drains reports whether parts of units drain.
func (l *life) drains() bool { return l.ask.Limit.Algorithm.Traits().Decay == limiter.DecayDrain }

// compare compares every region with the one store.
func (l *life) compare(t *rapid.T) {
	want := l.inOne(t, limiter.OpPeek, "", 1)
	for at := range l.all {
		got := l.do(t, at, limiter.OpPeek, "", 1).Limits[0]
		if l.drains() && l.refunds > 0 {
			if off := got.Remaining - want.Remaining; off > l.refunds || off < -l.refunds {
				t.Fatalf("region %d has %d left after %d refunds, one has %d", at, got.Remaining, l.refunds, want.Remaining)
			}
			continue
		}
		if got != want {
			t.Fatalf("%+v: region %d of %d answers\n%+v, one answers\n%+v", l.ask.Limit, at, len(l.all), got, want)
		}
	}
}
