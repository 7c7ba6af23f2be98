package storetest

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
)

// SettlementsAsCharges compares random settlements with charges, on one bucket of
// each algorithm.
func SettlementsAsCharges(t *testing.T, h Harness) {
	for _, a := range limiter.Algorithms() {
		if !a.Traits().Slots {
			t.Run("NeverLessThanTheActualCharge/"+a.String(), func(t *testing.T) { settleAsCharge(t, h, a) })
		}
	}
}

// Settlements checks OpSettle, which changes a reservation to the actual weight.
func Settlements(t *testing.T, h Harness) {
	tests := map[string]func(*recorder){
		"DifferenceIsGivenBack":             settleLess,
		"DifferenceIsChargedThoughItIsOver": settleMore,
		"UsedExceedsTheLimit":               settledUse,
		"EqualWeightChangesNothing":         settleEqual,
		"TwiceIsOnce":                       settleTwice,
		"UnknownIsNotAllowed":               settleUnknown,
		"PeekedIDIsNotAllowed":              settlePeeked,
		"LimitsOfNoRecordAreLeftAlone":      settleOtherKeys,
		"LeasesAndLooksAreLeftAlone":        settleLease,
		"RefundedIsChargedAnew":             settleRefunded,
		"RefundAfterwardsGivesBackTheRest":  settleThenRefund,
		"TakeRepeatedAfterwardsIsStored":    settleThenRepeat,
		"KeptRecordIsSettledLate":           settleLate,
		"RecordIsKeptForLonger":             settleKeep,
		"ChargeIsSettledToo":                settleCharge,
		"DrainedUnitsAreNotGivenBackTwice":  settleDrained,
		"AfterAnEditNothingIsGivenBack":     settleEdited,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			clock := NewClock(1_795_000_000_000)
			test(&recorder{T: t, clock: clock, store: h.New(t, clock.Now), who: newEntity()})
		})
	}
}

func (r *recorder) settle(id string, w int64, limits ...limiter.Limit) limiter.Result {
	r.Helper()
	return do(r.T, r.store, limiter.OpSettle, id, r.who.asks(w, limits...)...)
}

// settleAsCharge runs the same traffic twice: with a reservation that is settled
// later, and with the actual weight charged at first. The first bucket never has
// more room, and exactly as much if it is settled at once.
func settleAsCharge(t *testing.T, h Harness, a limiter.Algorithm) {
	clock := NewClock(clockMin)
	store := h.New(t, clock.Now)
	rapid.Check(t, func(rt *rapid.T) {
		clock.Set(genOrigin.Draw(rt, "origin"))
		limit := drawLimit(rt, a)
		reserved, charged := newEntity().asks(0, limit), newEntity().asks(0, limit)
		both := func(op limiter.Op, w int64) (x, y limiter.Decision) {
			reserved[0].Weight, charged[0].Weight = w, w
			return do(rt, store, op, "", reserved...).Limits[0], do(rt, store, op, "", charged...).Limits[0]
		}
		others := func() {
			for range rapid.IntRange(0, 5).Draw(rt, "others") {
				step(clock, drawStep(rt, limit, 0, false))
				// As much as fits the bucket with less room, so that neither exceeds its
				// capacity, where some algorithms drop units.
				x, y := both(limiter.OpPeek, 1)
				both(limiter.OpCharge, min(drawWeight(rt, limit), x.Remaining, y.Remaining))
			}
		}
		others()
		x, _ := both(limiter.OpPeek, 1)
		estimate := min(drawWeight(rt, limit), x.Remaining)
		actual := min(drawWeight(rt, limit), x.Remaining)
		if estimate == 0 {
			return
		}
		if limit.Align == limiter.AlignFirstHit {
			actual = max(actual, 1) // a window that was opened stays where it is
		}
		reserved[0].Weight, charged[0].Weight = estimate, actual
		if !do(rt, store, limiter.OpTake, "r", reserved...).Allowed {
			rt.Fatalf("%d of %d remaining did not pass", estimate, x.Remaining)
		}
		do(rt, store, limiter.OpCharge, "", charged...)
		at := clock.Now()
		others()
		reserved[0].Weight = actual
		for i := range 2 {
			if res := do(rt, store, limiter.OpSettle, "r", reserved...); !res.Allowed || res.Replayed != (i > 0) {
				rt.Fatalf("settled for the %dth time: %+v", i+1, res)
			}
		}
		if x, y := both(limiter.OpPeek, 1); clock.Now() == at && x != y {
			rt.Fatalf("settled at once, %d for %d of %+v: %+v, charged at first %+v", actual, estimate, limit, x, y)
		}
		for range 8 {
			if x, y := both(limiter.OpPeek, 1); x.Remaining > y.Remaining {
				rt.Fatalf("settled %d for %d of %+v: %d remain, charged at first %d", actual, estimate, limit, x.Remaining,
					y.Remaining)
			}
			step(clock, drawStep(rt, limit, 0, false))
		}
	})
}

func settleLess(r *recorder) {
	r.take("a", 5, tenAnHour, fiveAnHour)
	got := r.settle("a", 2, tenAnHour, fiveAnHour)
	r.is("allowed", got.Allowed, true)
	r.is("given back", []int64{got.Limits[0].Refunded, got.Limits[1].Refunded}, []int64{3, 3})
	r.is("remaining in the answer", []int64{got.Limits[0].Remaining, got.Limits[1].Remaining}, []int64{8, 3})
	r.is("remaining", r.remaining(tenAnHour, fiveAnHour), []int64{8, 3})
}

func settleMore(r *recorder) {
	r.take("a", 2, threeADay, tenAnHour)
	got := r.settle("a", 7, threeADay, tenAnHour)
	r.is("allowed", got.Allowed, true)
	r.is("each", []bool{got.Limits[0].Allowed, got.Limits[1].Allowed}, []bool{true, true})
	r.is("given back", []int64{got.Limits[0].Refunded, got.Limits[1].Refunded}, []int64{0, 0})
	r.is("remaining", r.remaining(threeADay, tenAnHour), []int64{0, 3})
	r.is("refunded without a name", do(r.T, r.store, limiter.OpRefund, "",
		r.who.asks(100, threeADay)...).Limits[0].Refunded, int64(7))
}

// settledUse settles above the limit of each algorithm. gcra counts no more than its burst.
func settledUse(r *recorder) {
	for _, a := range limiter.Algorithms() {
		if a.Traits().Slots {
			continue
		}
		l, most := slowLimit(a, 100), int64(125)
		if a.Traits().Instant {
			most = 100
		}
		id := a.String()
		r.take(id, 20, l)
		for _, w := range []int64{80, 20} {
			before := do(r.T, r.store, limiter.OpPeek, "", r.who.asks(w, l)...).Limits[0]
			r.is(id+": a look", []any{before.Allowed, before.Used}, []any{true, int64(20)})
		}
		before := do(r.T, r.store, limiter.OpTake, "", r.who.asks(81, l)...).Limits[0]
		r.is(id+": a denial", []any{before.Allowed, before.Remaining, before.Used}, []any{false, int64(80), int64(20)})
		settled := r.settle(id, 125, l)
		first := settled.Limits[0]
		r.is(id+": settled above the limit", []int64{first.Remaining, first.Used}, []int64{0, most})
		r.replays(settled, r.settle(id, 125, l))
		denied := r.take("", 1, l).Limits[0]
		r.is(id+": denied", []any{denied.Allowed, denied.Remaining, denied.Used}, []any{false, int64(0), most})
		if most == 125 {
			back := do(r.T, r.store, limiter.OpRefund, "", r.who.asks(10, l)...).Limits[0]
			r.is(id+": given back", []int64{back.Refunded, back.Remaining, back.Used}, []int64{10, 0, 115})
		}
		reset := do(r.T, r.store, limiter.OpReset, "", r.who.asks(0, l)...).Limits[0]
		r.is(id+": reset", []int64{reset.Remaining, reset.Used}, []int64{100, 0})
	}
}

func settleEqual(r *recorder) {
	r.take("a", 2, threeADay)
	r.is("given back", r.settle("a", 2, threeADay).Limits[0].Refunded, int64(0))
	r.is("remaining", r.remaining(threeADay), []int64{1})
}

func settleTwice(r *recorder) {
	r.take("a", 3, threeADay, tenAnHour)
	first := r.settle("a", 1, threeADay, tenAnHour)
	r.clock.Advance(limiter.ReplayWindow + 1)
	r.take("", 1, threeADay)
	r.replays(first, r.settle("a", 1, threeADay, tenAnHour))
	r.replays(first, r.settle("a", 3, threeADay, tenAnHour))
	r.is("remaining", r.remaining(threeADay, tenAnHour), []int64{1, 9})
}

func settleUnknown(r *recorder) {
	r.take("a", 1, threeADay)
	got := r.settle("b", 3, threeADay)
	r.is("allowed", got.Allowed, false)
	r.is("remaining in the answer", got.Limits[0].Remaining, int64(2))
	r.is("remaining", r.remaining(threeADay), []int64{2})
}

func settlePeeked(r *recorder) {
	do(r.T, r.store, limiter.OpPeek, "a", r.who.asks(1, threeADay)...)
	r.take("", 3, threeADay)
	r.is("denied", r.take("b", 1, threeADay).Allowed, false)
	for _, id := range []string{"a", "b"} {
		r.is("allowed "+id, r.settle(id, 1, threeADay).Allowed, false)
	}
	r.is("remaining", r.remaining(threeADay), []int64{0})
}

func settleOtherKeys(r *recorder) {
	r.take("a", 2, threeADay)
	r.is("allowed", r.settle("a", 1, threeADay, tenAnHour).Allowed, true)
	r.is("remaining", r.remaining(threeADay, tenAnHour), []int64{2, 10})
}

func settleLease(r *recorder) {
	asks := looking(r.who.asks(1, threeADay, twoAtOnce, tenAnHour), 0)
	do(r.T, r.store, limiter.OpTake, "a", asks...)
	for i := range asks {
		asks[i].Weight = 3
	}
	got := do(r.T, r.store, limiter.OpSettle, "a", asks...)
	r.is("allowed", got.Allowed, true)
	r.is("remaining", r.remaining(threeADay, twoAtOnce, tenAnHour), []int64{3, 1, 7})
	r.is("released", do(r.T, r.store, limiter.OpRelease, "a", r.who.key1(1, twoAtOnce)).Limits[0].Refunded, int64(1))
}

// key1 returns an ask of one unit of the entity's bucket number i.
func (e entity) key1(i int, l limiter.Limit) limiter.Ask {
	return limiter.Ask{Key: e.key(i, l.Algorithm), Limit: l, Weight: 1}
}

func settleRefunded(r *recorder) {
	r.take("a", 3, threeADay, tenAnHour)
	r.is("refunded", r.refund("a", threeADay), []int64{3})
	got := r.settle("a", 1, threeADay, tenAnHour)
	r.is("given back", []int64{got.Limits[0].Refunded, got.Limits[1].Refunded}, []int64{0, 2})
	r.is("remaining", r.remaining(threeADay, tenAnHour), []int64{2, 9})
}

func settleThenRefund(r *recorder) {
	r.take("a", 3, threeADay, tenAnHour)
	do(r.T, r.store, limiter.OpSettle, "a", r.who.key1(0, threeADay),
		limiter.Ask{Key: r.who.key(1, tenAnHour.Algorithm), Limit: tenAnHour, Weight: 5})
	r.is("remaining", r.remaining(threeADay, tenAnHour), []int64{2, 5})
	r.is("refunded", r.refund("a", threeADay, tenAnHour), []int64{1, 3})
	r.is("settled again", r.settle("a", 3, threeADay, tenAnHour).Replayed, true)
	r.is("remaining", r.remaining(threeADay, tenAnHour), []int64{3, 8})
}

func settleThenRepeat(r *recorder) {
	first := r.take("a", 3, tenAnHour, fiveAnHour)
	r.settle("a", 1, tenAnHour, fiveAnHour)
	r.clock.Advance(5)
	r.replays(first, r.take("a", 3, tenAnHour, fiveAnHour))
	r.is("remaining", r.remaining(tenAnHour, fiveAnHour), []int64{9, 4})
}

func settleLate(r *recorder) {
	req := limiter.Request{ID: "a", Keep: limiter.RecordKeepMax, Asks: r.who.asks(3, threeADay, tenAnHour)}
	if err := r.store.Do(context.Background(), &req, &limiter.Result{}); err != nil {
		r.Fatal(err)
	}
	r.clock.Advance(limiter.RecordTTLMax + 1)
	got := r.settle("a", 1, threeADay, tenAnHour)
	r.is("allowed", got.Allowed, true)
	r.is("given back", got.Limits[0].Refunded, int64(2))
}

// keep keeps the record of id for ms more.
func (r *recorder) keep(id string, ms int64, asks []limiter.Ask) bool {
	r.Helper()
	var res limiter.Result
	req := limiter.Request{Op: limiter.OpSettle, ID: id, Keep: ms, Attempt: limiter.MaxExact, Asks: asks}
	if err := r.store.Do(context.Background(), &req, &res); err != nil {
		r.Fatal(err)
	}
	return res.Allowed && !res.Replayed
}

func settleKeep(r *recorder) {
	day := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 10, Window: 86_400_000}
	minute := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 10, Window: 60_000}
	asks := r.who.asks(5, day, minute)
	r.is("without a record", r.keep("a", 7_200_000, asks), false)
	r.take("a", 5, day, minute)
	r.is("with one", r.keep("a", 7_200_000, asks), true)
	r.is("nothing is settled", r.remaining(day, minute), []int64{5, 5})
	r.clock.Advance(7_000_000)
	r.is("still kept", r.keep("a", 7_200_000, asks), true)
	r.is("settled", r.settle("a", 2, day, minute).Allowed, true)
	r.is("once it is settled", r.keep("a", 7_200_000, asks), false)
	r.is("remaining", r.remaining(day), []int64{8})
}

func settleCharge(r *recorder) {
	do(r.T, r.store, limiter.OpCharge, "a", r.who.asks(9, threeADay)...)
	r.is("given back", r.settle("a", 2, threeADay).Limits[0].Refunded, int64(7))
	r.is("remaining", r.remaining(threeADay), []int64{1})
}

func settleDrained(r *recorder) {
	r.take("a", 8, tenASecond)
	r.clock.Advance(550) // 5.5 have drained; of 3 alone nothing would be left
	r.is("given back", r.settle("a", 3, tenASecond).Limits[0].Refunded, int64(2))
	r.is("remaining", r.remaining(tenASecond), []int64{10})
}

func settleEdited(r *recorder) {
	r.take("a", 3, tenAnHour)
	edited := tenAnHour
	edited.Window *= 2
	r.is("given back", r.settle("a", 1, edited).Limits[0].Refunded, int64(0))
	r.is("remaining", r.remaining(edited), []int64{7})
}
