package storetest

import (
	"context"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
)

// Bans checks bans: asks that deny after too many denials of the preceding ask.
func Bans(t *testing.T, h Harness) {
	tests := map[string]func(*recorder){
		"BeginsWithTheLastDenial":           banBegins,
		"EndsAtItsInstant":                  banEnds,
		"GrowsUntilItIsForgotten":           banGrows,
		"DenialsOfLongAgoDoNotCount":        banForgets,
		"OnlyTakesOfItsOwnLimitCount":       banCountsItsOwn,
		"ABannedRequestSpendsNothing":       banSpendsNothing,
		"LooksOfItsLimitCount":              banCountsLooks,
		"ABanThatLooksDoesNotCount":         banLooks,
		"ResetOfTheBanAlone":                banIsLifted,
		"RefundChargeAndSettleLeaveItAlone": banStays,
		"AStoredAnswerIsNotCounted":         banAndRepeats,
		"ARepeatAfterABanIsAdded":           banAddedBeforeARepeat,
		"ARepeatAfterABanIsRemoved":         banRemovedBeforeARepeat,
		"EachBanOfARequestCountsItsOwn":     bansBesideEachOther,
		"AClockThatStepsBack":               banOnAClockThatStepsBack,
		"BesideALimitWithRoom":              banBesideRoom,
		"ALookBesideALimitWithRoom":         banOfALookBesideRoom,
		"ARepeatBesideALimitWithRoom":       banAndRepeatsBesideRoom,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			clock := NewClock(1_795_000_000_000)
			test(&recorder{T: t, clock: clock, store: h.New(t, clock.Now), who: newEntity()})
		})
	}
	for _, a := range limiter.Algorithms() {
		if a != limiter.Concurrency {
			t.Run("Model/"+a.String(), func(t *testing.T) { banModel(t, h, a) })
		}
	}
}

// twoOfThree begins a ban of 10 s, then 20, then at most 30, after two denials within 3 s.
var twoOfThree = limiter.BanLimit(2, 3000, 10_000, 2, 30_000)

// banned returns the asks of a limit and of its ban.
func (e entity) banned(w int64, l, ban limiter.Limit) []limiter.Ask {
	asks := e.asks(w, l)
	return append(asks, limiter.Ask{Key: limiter.BanKey(asks[0].Key), Limit: ban})
}

// tries takes one unit of a limit with a ban.
func (r *recorder) tries(l, ban limiter.Limit) (of, its limiter.Decision) {
	r.Helper()
	res := do(r.T, r.store, limiter.OpTake, "", r.who.banned(1, l, ban)...)
	r.is("allowed", res.Allowed, res.Limits[0].Allowed && res.Limits[1].Allowed)
	return res.Limits[0], res.Limits[1]
}

// bans takes units until a ban begins, and returns its length.
func (r *recorder) bans(l, ban limiter.Limit) int64 {
	r.Helper()
	for range 100 {
		if _, d := r.tries(l, ban); !d.Allowed {
			r.is("begins", d.BanBegan, true)
			return d.RetryAfter
		}
	}
	r.Fatalf("no ban after 100 denials")
	return 0
}

func banBegins(r *recorder) {
	r.take("", 3, threeADay)
	of, its := r.tries(threeADay, twoOfThree)
	r.is("the first denial", []any{of.Allowed, its.Allowed, its.Remaining, its.Reset},
		[]any{false, true, int64(1), int64(3000)})
	r.clock.Advance(2999)
	of, its = r.tries(threeADay, twoOfThree)
	r.is("the second", []any{of.Allowed, its}, []any{false, limiter.Decision{
		Limit: 2, Used: 2, RetryAfter: 10_000, Reset: 10_000, BanBegan: true}})
	r.clock.Advance(1)
	_, its = r.tries(threeADay, twoOfThree)
	r.is("the third", its, limiter.Decision{Limit: 2, Used: 2, RetryAfter: 9999, Reset: 9999})
}

func banLooks(r *recorder) {
	r.take("", 3, threeADay)
	asks := r.who.banned(1, threeADay, twoOfThree)
	asks[1].Look = true
	for range 3 {
		its := do(r.T, r.store, limiter.OpTake, "", asks...).Limits[1]
		r.is("left", []any{its.Allowed, its.Remaining, its.BanBegan}, []any{true, int64(2), false})
	}
	r.bans(threeADay, twoOfThree)
	its := do(r.T, r.store, limiter.OpTake, "", asks...).Limits[1]
	r.is("a ban", []any{its.Allowed, its.RetryAfter, its.BanBegan}, []any{false, int64(10_000), false})
}

func banEnds(r *recorder) {
	r.take("", 3, threeADay)
	r.bans(threeADay, twoOfThree)
	other := slowLimit(limiter.FixedWindow, 100) // the ban is of the bucket's key, whatever its limit became
	r.clock.Advance(9999)
	_, its := r.tries(other, twoOfThree)
	r.is("a ms before", []any{its.Allowed, its.RetryAfter}, []any{false, int64(1)})
	r.clock.Advance(1)
	of, its := r.tries(other, twoOfThree)
	r.is("at its end", []any{of.Allowed, its.Allowed, its.Remaining, its.Reset}, []any{true, true, int64(2), int64(0)})
}

func banGrows(r *recorder) {
	r.take("", 3, threeADay)
	var lengths []int64
	for range 4 {
		length := r.bans(threeADay, twoOfThree)
		lengths = append(lengths, length)
		r.clock.Advance(length)
	}
	r.is("one after the other", lengths, []int64{10_000, 20_000, 30_000, 30_000})
	r.clock.Advance(29_999)
	r.is("just in time", r.bans(threeADay, twoOfThree), int64(30_000))
	r.clock.Advance(30_000 + 30_000)
	r.is("later", r.bans(threeADay, twoOfThree), int64(10_000))
}

func banForgets(r *recorder) {
	r.take("", 3, threeADay)
	for range 5 {
		_, its := r.tries(threeADay, twoOfThree)
		r.is("denials", []any{its.Allowed, its.Remaining}, []any{true, int64(1)})
		r.clock.Advance(3000)
	}
}

func banCountsItsOwn(r *recorder) {
	pair := r.who.banned(1, threeADay, twoOfThree)
	other := r.who.asks(1, threeADay, tenAnHour)[1]
	all := other
	all.Weight = 10
	do(r.T, r.store, limiter.OpTake, "", all)
	for range 5 {
		res := do(r.T, r.store, limiter.OpTake, "", append(slices.Clone(pair), other)...)
		r.is("denied by the other", []bool{res.Allowed, res.Limits[0].Allowed, res.Limits[1].Allowed},
			[]bool{false, true, true})
		r.is("counted", res.Limits[1].Remaining, int64(2))
	}
	r.take("", 3, threeADay)
	for _, op := range []limiter.Op{limiter.OpPeek, limiter.OpPeek, limiter.OpCharge, limiter.OpCharge} {
		r.is("counted by "+op.String(), do(r.T, r.store, op, "", pair...).Limits[1].Remaining, int64(2))
	}
	without := r.who.banned(0, threeADay, twoOfThree)
	r.is("counted without weight", do(r.T, r.store, limiter.OpTake, "", without...).Limits[1].Remaining, int64(2))
	res := do(r.T, r.store, limiter.OpTake, "", append([]limiter.Ask{other}, pair...)...)
	r.is("counted behind others", res.Limits[2].Remaining, int64(1))
}

func banSpendsNothing(r *recorder) {
	r.take("", 3, threeADay)
	r.bans(threeADay, twoOfThree)
	do(r.T, r.store, limiter.OpReset, "", r.who.asks(0, threeADay)...)
	of, its := r.tries(threeADay, twoOfThree)
	r.is("denied by the ban alone", []any{of.Allowed, of.Remaining, its.Allowed}, []any{true, int64(3), false})
	pair := append(r.who.banned(1, threeADay, twoOfThree), r.who.asks(1, threeADay, tenAnHour)[1])
	do(r.T, r.store, limiter.OpTake, "", pair...)
	r.is("remaining", r.remaining(threeADay, tenAnHour), []int64{3, 10})
}

func banCountsLooks(r *recorder) {
	r.take("", 3, threeADay)
	asks := looking(r.who.banned(1, threeADay, twoOfThree), 0)
	r.is("first", do(r.T, r.store, limiter.OpTake, "", asks...).Limits[1].Remaining, int64(1))
	r.is("second", do(r.T, r.store, limiter.OpTake, "", asks...).Limits[1].BanBegan, true)
}

func banIsLifted(r *recorder) {
	r.take("", 3, threeADay)
	r.bans(threeADay, twoOfThree)
	ban := r.who.banned(0, threeADay, twoOfThree)[1:]
	d := do(r.T, r.store, limiter.OpReset, "", ban...).Limits[0]
	r.is("allowed", []any{d.Allowed, d.Remaining, d.Reset}, []any{true, int64(2), int64(0)})
	r.is("remaining", r.remaining(threeADay), []int64{0})
	r.is("the next has its first length", r.bans(threeADay, twoOfThree), int64(10_000))
}

func banStays(r *recorder) {
	do(r.T, r.store, limiter.OpTake, "a", r.who.banned(3, threeADay, twoOfThree)...)
	r.bans(threeADay, twoOfThree)
	pair := r.who.banned(1, threeADay, twoOfThree)
	for _, op := range []limiter.Op{limiter.OpSettle, limiter.OpRefund} {
		do(r.T, r.store, op, "a", pair...)
	}
	do(r.T, r.store, limiter.OpRefund, "", pair...)
	do(r.T, r.store, limiter.OpCharge, "", pair...)
	_, its := r.tries(threeADay, twoOfThree)
	r.is("the ban", []any{its.Allowed, its.RetryAfter, its.Limit}, []any{false, int64(10_000), int64(2)})
}

func banAndRepeats(r *recorder) {
	pair := r.who.banned(3, threeADay, twoOfThree)
	first := do(r.T, r.store, limiter.OpTake, "a", pair...)
	r.bans(threeADay, twoOfThree)
	for range 3 {
		again := do(r.T, r.store, limiter.OpTake, "a", pair...)
		r.is("the repeat", []any{again.Replayed, again.Allowed, again.Limits}, []any{true, true, first.Limits})
	}
	r.clock.Advance(10_000)
	_, its := r.tries(threeADay, twoOfThree)
	r.is("counted", its.Remaining, int64(1))
}

func banAddedBeforeARepeat(r *recorder) {
	without := append(r.who.asks(1, threeADay), r.who.room())
	with := slices.Insert(slices.Clone(without), 1, r.who.banned(1, threeADay, twoOfThree)[1])
	for _, op := range []limiter.Op{limiter.OpTake, limiter.OpCharge} {
		first := do(r.T, r.store, op, op.String(), without...)
		want := slices.Insert(slices.Clone(first.Limits), 1, limiter.Decision{Allowed: true, Limit: 2, Remaining: 2})
		again := do(r.T, r.store, op, op.String(), with...)
		r.is(op.String(), []any{again.Replayed, again.Allowed, again.At, again.Limits},
			[]any{true, first.Allowed, first.At, want})
	}
	r.is("spent", r.remaining(threeADay), []int64{1})
	again := do(r.T, r.store, limiter.OpTake, "take", with[:2]...)
	r.is("with a limit less", []any{again.Replayed, again.Limits[0].Remaining}, []any{false, int64(0)})
	do(r.T, r.store, limiter.OpRefund, "take", with[:2]...)
	r.is("refunded", r.remaining(threeADay), []int64{1})
}

func banRemovedBeforeARepeat(r *recorder) {
	with := append(r.who.banned(1, threeADay, twoOfThree), r.who.room())
	without := slices.Delete(slices.Clone(with), 1, 2)
	first := do(r.T, r.store, limiter.OpTake, "a", with...)
	want := slices.Delete(slices.Clone(first.Limits), 1, 2)
	for range 2 {
		again := do(r.T, r.store, limiter.OpTake, "a", without...)
		r.is("the repeat", []any{again.Replayed, again.Allowed, again.Limits}, []any{true, true, want})
	}
	r.is("spent", r.remaining(threeADay), []int64{2})
	other := limiter.Ask{Key: r.who.key(8, tenAnHour.Algorithm), Limit: tenAnHour, Weight: 1}
	again := do(r.T, r.store, limiter.OpTake, "a", append(slices.Clone(without), other)...)
	r.is("with another limit", again.Replayed, false)
}

func bansBesideEachOther(r *recorder) {
	r.take("", 3, threeADay)
	asks := append(r.who.banned(1, threeADay, twoOfThree),
		limiter.Ask{Key: r.who.key(7, tenAnHour.Algorithm), Limit: tenAnHour, Weight: 1},
		limiter.Ask{Key: limiter.BanKey(r.who.key(7, tenAnHour.Algorithm)), Limit: twoOfThree})
	for range 2 {
		do(r.T, r.store, limiter.OpTake, "", asks...)
	}
	res := do(r.T, r.store, limiter.OpTake, "", asks...)
	var allowed []bool
	for _, d := range res.Limits {
		allowed = append(allowed, d.Allowed)
	}
	r.is("allowed", allowed, []bool{false, false, true, true})
	r.is("counted there", res.Limits[3].Remaining, int64(2))
}

// room is an ask of a limit that is narrower than threeADay and has room.
func (e entity) room() limiter.Ask {
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 2, Window: 86_400_000}
	return limiter.Ask{Key: e.key(7, l.Algorithm), Limit: l, Weight: 1}
}

func banBesideRoom(r *recorder) {
	r.take("", 3, threeADay)
	asks := append(r.who.banned(1, threeADay, twoOfThree), r.who.room())
	for _, want := range []limiter.Decision{
		{Allowed: true, Limit: 2, Remaining: 1, Used: 1, Reset: 3000},
		{Limit: 2, Used: 2, RetryAfter: 10_000, Reset: 10_000, BanBegan: true},
		{Limit: 2, Used: 2, RetryAfter: 10_000, Reset: 10_000},
	} {
		res := do(r.T, r.store, limiter.OpTake, "", asks...)
		r.is("the ban", res.Limits[1], want)
		r.is("beside it", []any{res.Allowed, res.Limits[2].Allowed, res.Limits[2].Remaining}, []any{false, true, int64(2)})
	}
	asks[1].Look = true
	do(r.T, r.store, limiter.OpReset, "", asks[1])
	r.is("a ban that looks", do(r.T, r.store, limiter.OpTake, "", asks...).Limits[1].Remaining, int64(2))
}

func banOfALookBesideRoom(r *recorder) {
	r.take("", 3, threeADay)
	asks := append(looking(r.who.banned(1, threeADay, twoOfThree), 0), r.who.room())
	r.is("first", do(r.T, r.store, limiter.OpTake, "a", asks...).Limits[1].Remaining, int64(1))
	r.is("second", do(r.T, r.store, limiter.OpTake, "b", asks...).Limits[1].BanBegan, true)
}

func banAndRepeatsBesideRoom(r *recorder) {
	asks := append(looking(r.who.banned(1, threeADay, twoOfThree), 0), r.who.room())
	r.is("admitted", do(r.T, r.store, limiter.OpTake, "a", asks...).Allowed, true)
	r.take("", 3, threeADay)
	for range 3 {
		r.is("the repeat", do(r.T, r.store, limiter.OpTake, "a", asks...).Allowed, true)
	}
	r.is("counted", do(r.T, r.store, limiter.OpTake, "b", asks...).Limits[1].Remaining, int64(1))
}

func banOnAClockThatStepsBack(r *recorder) {
	r.take("", 3, threeADay)
	r.bans(threeADay, twoOfThree)
	r.clock.Advance(-3_600_000)
	_, its := r.tries(threeADay, twoOfThree)
	r.is("never longer than its length", its.RetryAfter, int64(10_000))
	r.clock.Advance(10_000)
	_, its = r.tries(threeADay, twoOfThree)
	r.is("over", its.Allowed, true)
}

// banState is a ban as the tests count it: from the times of the denials.
type banState struct {
	denials    []int64
	until, len int64
}

// denied counts a denial and reports whether a ban begins.
func (b *banState) denied(now int64, l limiter.Limit) bool {
	if len(b.denials) > 0 && now >= b.denials[0]+l.Window {
		b.denials = nil
	}
	if b.denials = append(b.denials, now); int64(len(b.denials)) < l.Count {
		return false
	}
	last := b.len
	b.denials, b.len = nil, l.Burst
	if last > 0 && now-b.until < l.Anchor {
		b.len = min(last*l.Buckets, l.Anchor)
	}
	b.until = now + b.len
	return true
}

// banModel compares random takes, looks and resets with a model.
func banModel(t *testing.T, h Harness, a limiter.Algorithm) {
	clock := NewClock(1_795_000_000_000)
	s := h.New(t, clock.Now)
	rapid.Check(t, func(t *rapid.T) {
		who, l := newEntity(), slowLimit(a, 3)
		lasts := rapid.Int64Range(1, 500).Draw(t, "lasts")
		ban := limiter.BanLimit(rapid.Int64Range(1, 4).Draw(t, "after"), rapid.Int64Range(1, 300).Draw(t, "within"), lasts,
			rapid.Int64Range(1, 4).Draw(t, "grow"), lasts+rapid.Int64Range(0, 2000).Draw(t, "most"))
		var model banState
		for range 40 {
			clock.Advance(rapid.SampledFrom([]int64{0, 1, 7, 100, lasts, lasts + 1, 2000}).Draw(t, "wait"))
			now, asks := clock.Now(), who.banned(rapid.Int64Range(0, 2).Draw(t, "weight"), l, ban)
			op := rapid.SampledFrom([]limiter.Op{limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpPeek,
				limiter.OpReset}).Draw(t, "op")
			id := rapid.SampledFrom([]string{"", "", string(rune('a' + now%26))}).Draw(t, "id")
			var res limiter.Result
			if op == limiter.OpReset {
				asks, model = asks[1:], banState{}
			}
			if err := s.Do(context.Background(), &limiter.Request{Op: op, ID: id, Asks: asks}, &res); err != nil {
				t.Fatal(err)
			}
			if op == limiter.OpReset || res.Replayed {
				continue
			}
			of, its := res.Limits[0], res.Limits[1]
			banned := now < model.until
			began := op == limiter.OpTake && !banned && !of.Allowed && asks[0].Weight > 0 && model.denied(now, ban)
			wait := max(0, model.until-now)
			if its.Allowed != (!banned && !began) || its.BanBegan != began || its.RetryAfter != wait ||
				res.Allowed != (of.Allowed && its.Allowed) {
				t.Fatalf("%s at %d: %+v, %+v; want banned %v, began %v, until %d", op, now, of, its, banned, began, model.until)
			}
			if left := ban.Count - int64(len(model.denials)); its.Allowed && len(model.denials) > 0 &&
				now < model.denials[0]+ban.Window && its.Remaining != left {
				t.Fatalf("%d denials left, want %d", its.Remaining, left)
			}
		}
	})
}

// banStorm denies from many callers of two nodes at once: exactly enough denials are counted, and one of them begins
// the ban. The request may also have a narrower limit with room.
func banStorm(t *testing.T, h Harness, beside bool) {
	stores := pair(t, h)
	who, full := newEntity(), slowLimit(limiter.SlidingWindowCounter, 3)
	ban := limiter.BanLimit(50, 600_000, 3_600_000, 1, 3_600_000)
	do(t, stores[0], limiter.OpTake, "", who.asks(3, full)...)
	asks := who.banned(1, full, ban)
	if beside {
		asks = append(asks, who.room())
	}
	var mu sync.Mutex
	var counted, began, banned int
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			for range 20 {
				var res limiter.Result
				err := stores[n%2].Do(context.Background(), &limiter.Request{Asks: asks}, &res)
				mu.Lock()
				switch d := res.Limits; {
				case err != nil || res.Allowed:
					t.Errorf("got %+v, %v", res, err)
				case d[1].BanBegan:
					began++
				case d[1].Allowed:
					counted++
				default:
					banned++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if counted != 49 || began != 1 || banned != 350 {
		t.Errorf("%d denials were counted, %d began a ban, %d were banned; want 49, 1, 350", counted, began, banned)
	}
}
