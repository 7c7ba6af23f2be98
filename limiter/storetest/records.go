package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/limiter"
)

// Records checks the records of named requests: the rules at limiter.ReplayWindow.
func Records(t *testing.T, h Harness) {
	tests := map[string]func(*recorder){
		"RepeatGetsStoredAnswerAndSpendsNothing": repeatedTake,
		"RepeatNamesTheLimitOfItsFirstTime":      repeatAfterEdit,
		"RepeatedChargeSpendsOnce":               repeatedCharge,
		"RepeatAtWindowEndIsStored":              repeatAtWindowEnd,
		"RepeatBeforeFirstTimeIsDecidedFresh":    repeatFromThePast,
		"DeniedTakeIsNotRecorded":                deniedTake,
		"WeightZeroIsNotRecorded":                weightZero,
		"PeekIsNeitherStoredNorReplayed":         namedPeek,
		"OtherKeysAreDecidedFreshAndReplace":     otherKeys,
		"OtherEntityIsAnotherRecord":             otherEntity,
		"RefundByIDGivesBackOnce":                refundOnce,
		"RefundIsPerKey":                         refundPerKey,
		"RefundOfUnknownIDGivesNothing":          refundUnknown,
		"RefundAfterDrainGivesOnlyWhatIsHeld":    refundDrained,
		"RefundWorksBeyondReplayWindow":          refundLate,
		"RefundedRequestIsDecidedFresh":          refundedRepeat,
		"LeasesAloneAreIdempotentNotReplayed":    leaseRepeat,
		"LeaseBesideALimitIsReplayedWithIt":      mixedRepeat,
		"RefundByIDReleasesTheLease":             refundLease,
		"WhatRepeatsRelyOnIsNotGivenBack":        heldByAttempts,
		"ATakeWithoutAnAttemptHoldsForGood":      heldForGood,
		"SoDoTooManyAttempts":                    heldByMany,
		"AnyIDIsItself":                          strangeIDs,
		"ALogAboveItsLimitForgetsInTime":         logAboveItsLimit,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			clock := NewClock(1_795_000_000_000)
			test(&recorder{T: t, clock: clock, store: h.New(t, clock.Now), who: newEntity()})
		})
	}
}

// recorder is a store with a separate clock and entity.
type recorder struct {
	*testing.T
	clock *Clock
	store limiter.Store
	who   entity
}

var (
	tenAnHour  = limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 10, Window: 3_600_000}
	fiveAnHour = limiter.Limit{Algorithm: limiter.TokenBucket, Count: 5, Window: 3_600_000, Burst: 5}
	twoAtOnce  = limiter.Limit{Algorithm: limiter.Concurrency, Count: 2, Window: 3_600_000}
	tenASecond = limiter.Limit{Algorithm: limiter.TokenBucket, Count: 10, Window: 1000, Burst: 10}
	threeADay  = limiter.Limit{Algorithm: limiter.FixedWindow, Count: 3, Window: 86_400_000}
)

func (r *recorder) take(id string, w int64, limits ...limiter.Limit) limiter.Result {
	r.Helper()
	return do(r.T, r.store, limiter.OpTake, id, r.who.asks(w, limits...)...)
}

// refund refunds by id on the entity's buckets and returns the units of each.
func (r *recorder) refund(id string, limits ...limiter.Limit) []int64 {
	r.Helper()
	var out []int64
	for _, d := range do(r.T, r.store, limiter.OpRefund, id, r.who.asks(0, limits...)...).Limits {
		out = append(out, d.Refunded)
	}
	return out
}

// remaining returns the remaining units of each limit.
func (r *recorder) remaining(limits ...limiter.Limit) []int64 {
	r.Helper()
	var out []int64
	for _, d := range do(r.T, r.store, limiter.OpPeek, "", r.who.asks(0, limits...)...).Limits {
		out = append(out, d.Remaining)
	}
	return out
}

// is fails the test unless got equals want.
func (r *recorder) is(what string, got, want any) {
	r.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// replays fails the test unless got is the stored first answer.
func (r *recorder) replays(first, got limiter.Result) {
	r.Helper()
	first.Replayed = true
	r.is("repeat", got, first)
}

func repeatedTake(r *recorder) {
	first := r.take("a", 3, tenAnHour, fiveAnHour)
	r.clock.Advance(1234)
	r.take("", 1, tenAnHour)
	r.replays(first, r.take("a", 3, tenAnHour, fiveAnHour))
	r.is("remaining", r.remaining(tenAnHour, fiveAnHour), []int64{6, 2})
}

func repeatAfterEdit(r *recorder) {
	first := r.take("a", 3, fiveAnHour)
	r.is("limit", []int64{first.Limits[0].Limit, first.Limits[0].Rate}, []int64{5, 5})
	edited := fiveAnHour
	edited.Count, edited.Burst = 7, 9
	r.replays(first, r.take("a", 3, edited))
	fresh := r.take("b", 1, edited).Limits[0]
	r.is("edited limit", []int64{fresh.Limit, fresh.Rate}, []int64{9, 7})
}

func repeatedCharge(r *recorder) {
	charge := func() limiter.Result {
		return do(r.T, r.store, limiter.OpCharge, "a", r.who.asks(12, tenAnHour)...)
	}
	first := charge()
	r.is("allowed", first.Allowed, false)
	r.replays(first, charge())
	r.is("refunded", r.refund("a", tenAnHour), []int64{12})
	r.is("remaining", r.remaining(tenAnHour), []int64{10})
}

func repeatAtWindowEnd(r *recorder) {
	first := r.take("a", 1, threeADay)
	r.clock.Advance(limiter.ReplayWindow)
	r.replays(first, r.take("a", 1, threeADay))
	r.clock.Advance(1)
	r.is("replayed after the window", r.take("a", 1, threeADay).Replayed, false)
	r.is("remaining", r.remaining(threeADay), []int64{1})
}

func repeatFromThePast(r *recorder) {
	r.take("a", 1, threeADay)
	r.clock.Advance(-1)
	r.is("replayed", r.take("a", 1, threeADay).Replayed, false)
	r.is("remaining", r.remaining(threeADay), []int64{1})
}

func deniedTake(r *recorder) {
	r.take("", 3, threeADay)
	r.is("allowed", r.take("a", 1, threeADay).Allowed, false)
	do(r.T, r.store, limiter.OpReset, "", r.who.asks(0, threeADay)...)
	got := r.take("a", 1, threeADay)
	r.is("allowed after reset", got.Allowed, true)
	r.is("replayed", got.Replayed, false)
}

func weightZero(r *recorder) {
	r.take("a", 0, threeADay)
	got := r.take("a", 2, threeADay)
	r.is("replayed", got.Replayed, false)
	r.is("remaining", r.remaining(threeADay), []int64{1})
}

func namedPeek(r *recorder) {
	peek := func() limiter.Result {
		return do(r.T, r.store, limiter.OpPeek, "a", r.who.asks(1, threeADay)...)
	}
	peek()
	r.is("replayed", r.take("a", 1, threeADay).Replayed, false)
	got := peek()
	r.is("replayed", got.Replayed, false)
	r.is("remaining", got.Limits[0].Remaining, int64(2))
}

func otherKeys(r *recorder) {
	r.take("a", 1, threeADay)
	r.is("replayed with one key more", r.take("a", 1, threeADay, tenAnHour).Replayed, false)
	r.is("replayed with the first key alone", r.take("a", 1, threeADay).Replayed, false)
	r.is("replayed again", r.take("a", 1, threeADay).Replayed, true)
	r.is("remaining", r.remaining(threeADay, tenAnHour), []int64{0, 9})
}

func otherEntity(r *recorder) {
	r.take("a", 1, threeADay)
	other := newEntity()
	got := do(r.T, r.store, limiter.OpTake, "a", other.asks(1, threeADay)...)
	r.is("replayed", got.Replayed, false)
	r.is("replayed for the first", r.take("a", 1, threeADay).Replayed, true)
}

func refundOnce(r *recorder) {
	r.take("a", 2, threeADay)
	r.take("b", 1, threeADay)
	r.is("refunded", r.refund("a", threeADay), []int64{2})
	r.is("refunded again", r.refund("a", threeADay), []int64{0})
	r.is("remaining", r.remaining(threeADay), []int64{2})
}

func refundPerKey(r *recorder) {
	r.take("a", 2, threeADay, tenAnHour)
	r.is("first key", r.refund("a", threeADay), []int64{2})
	r.is("both keys", r.refund("a", threeADay, tenAnHour), []int64{0, 2})
	r.is("remaining", r.remaining(threeADay, tenAnHour), []int64{3, 10})
}

func refundUnknown(r *recorder) {
	r.take("a", 2, threeADay)
	r.is("refunded", r.refund("b", threeADay), []int64{0})
	r.is("another limit's bucket", do(r.T, r.store, limiter.OpRefund, "a", limiter.Ask{
		Key: r.who.key(7, threeADay.Algorithm), Limit: threeADay,
	}).Limits[0].Refunded, int64(0))
	r.is("remaining", r.remaining(threeADay), []int64{1})
}

func refundDrained(r *recorder) {
	r.take("a", 8, tenASecond)
	r.clock.Advance(550) // 5.5 of the 8 have drained
	r.is("refunded", r.refund("a", tenASecond), []int64{2})
	r.is("remaining", r.remaining(tenASecond), []int64{10})
}

func refundLate(r *recorder) {
	r.take("a", 2, threeADay)
	r.clock.Advance(limiter.ReplayWindow * 5)
	r.is("refunded", r.refund("a", threeADay), []int64{2})
}

func refundedRepeat(r *recorder) {
	r.take("a", 2, threeADay, tenAnHour)
	r.refund("a", threeADay)
	r.is("replayed", r.take("a", 2, threeADay, tenAnHour).Replayed, false)
	r.is("remaining", r.remaining(threeADay, tenAnHour), []int64{1, 6})
	r.is("replayed then", r.take("a", 2, threeADay, tenAnHour).Replayed, true)
}

func leaseRepeat(r *recorder) {
	r.take("a", 1, twoAtOnce)
	again := r.take("a", 1, twoAtOnce)
	r.is("allowed", again.Allowed, true)
	r.is("replayed", again.Replayed, false)
	r.is("remaining", r.remaining(twoAtOnce), []int64{1})
	do(r.T, r.store, limiter.OpRelease, "a", r.who.asks(0, twoAtOnce)...)
	r.take("a", 1, twoAtOnce)
	r.is("remaining after release and take", r.remaining(twoAtOnce), []int64{1})
}

func mixedRepeat(r *recorder) {
	first := r.take("a", 1, twoAtOnce, threeADay)
	r.replays(first, r.take("a", 1, twoAtOnce, threeADay))
	r.is("remaining", r.remaining(twoAtOnce, threeADay), []int64{1, 2})
}

func refundLease(r *recorder) {
	r.take("a", 2, twoAtOnce, threeADay)
	r.is("refunded", r.refund("a", twoAtOnce, threeADay), []int64{2, 2})
	r.is("refunded again", r.refund("a", twoAtOnce, threeADay), []int64{0, 0})
	r.is("remaining", r.remaining(twoAtOnce, threeADay), []int64{2, 3})
}

// attempt takes or refunds a lease and a unit under the id a, and returns what is left of both.
func (r *recorder) attempt(op limiter.Op, attempt int64) []int64 {
	r.Helper()
	var res limiter.Result
	req := limiter.Request{Op: op, ID: "a", Attempt: attempt, Asks: r.who.asks(1, twoAtOnce, threeADay)}
	if err := r.store.Do(context.Background(), &req, &res); err != nil {
		r.Fatal(err)
	}
	left := []int64{res.Limits[0].Remaining, res.Limits[1].Remaining}
	if op == limiter.OpRefund {
		r.is("remaining", r.remaining(twoAtOnce, threeADay), left)
	}
	return left
}

func heldByAttempts(r *recorder) {
	taken, free := []int64{1, 2}, []int64{2, 3}
	for _, attempt := range []int64{1, 2, limiter.MaxExact, 2} {
		r.is("taken", r.attempt(limiter.OpTake, attempt), taken)
		r.clock.Advance(1)
	}
	for _, attempt := range []int64{1, 3, 1, limiter.MaxExact} {
		r.is("another one relies on it", r.attempt(limiter.OpRefund, attempt), taken)
	}
	r.attempt(limiter.OpTake, 4)
	r.is("a later one relies on it", r.attempt(limiter.OpRefund, 2), taken)
	r.is("the last one", r.attempt(limiter.OpRefund, 4), free)
	r.is("taken anew", r.attempt(limiter.OpTake, 5), taken)
	r.is("given back again, late", r.attempt(limiter.OpRefund, 4), taken)
	r.is("the only one", r.attempt(limiter.OpRefund, 5), free)
	r.attempt(limiter.OpTake, 6)
	r.is("refunded by the caller", r.attempt(limiter.OpRefund, 0), free)
}

func heldForGood(r *recorder) {
	taken := []int64{1, 2}
	r.attempt(limiter.OpTake, 1)
	r.attempt(limiter.OpTake, 0)
	r.is("relied on without an attempt", r.attempt(limiter.OpRefund, 1), taken)
	r.is("refunded", r.attempt(limiter.OpRefund, 0), []int64{2, 3})
	r.attempt(limiter.OpTake, 0)
	r.attempt(limiter.OpTake, 2)
	r.is("taken without an attempt", r.attempt(limiter.OpRefund, 2), taken)
}

func heldByMany(r *recorder) {
	const most = limiter.MaxAttempts
	for attempt := range int64(most) {
		r.attempt(limiter.OpTake, attempt+1)
	}
	for attempt := range int64(most - 1) {
		r.attempt(limiter.OpRefund, attempt+1)
	}
	r.is("the last of many", r.attempt(limiter.OpRefund, most), []int64{2, 3})
	for attempt := range int64(most + 1) {
		r.attempt(limiter.OpTake, attempt+1)
	}
	for attempt := range int64(most + 1) {
		r.attempt(limiter.OpRefund, attempt+1)
	}
	r.is("too many", r.remaining(twoAtOnce, threeADay), []int64{1, 2})
}

func strangeIDs(r *recorder) {
	ids := []string{"}", "{", "|", ":q:", "%", "%7D", "a:q:b", "\x00", "\n", "\xff\xfe", "日本語",
		"0123456789012345678901234567890123456789012345678901234567890123"}
	limit := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1000, Window: 86_400_000}
	for i, id := range ids {
		got := r.take(id, 1, limit)
		r.is(fmt.Sprintf("%q replayed", id), got.Replayed, false)
		r.is(fmt.Sprintf("%q remaining", id), got.Limits[0].Remaining, int64(999-i))
	}
	for _, id := range ids {
		r.is(fmt.Sprintf("%q replayed", id), r.take(id, 1, limit).Replayed, true)
	}
}
