package storetest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/limiter"
)

// Looks checks Ask.Look: a limit that is checked in a take and spends nothing.
func Looks(t *testing.T, h Harness) {
	for _, a := range limiter.Algorithms() {
		t.Run("AnswersAsATakeAndSpendsNothing/"+a.String(), func(t *testing.T) { looksAlone(t, h, a) })
	}
	tests := map[string]func(*recorder){
		"DenialDeniesTheOthersToo":            lookDenies,
		"OthersAreTakenAndItIsNot":            lookPasses,
		"OthersDenyAndNothingIsSpent":         lookBesideDenied,
		"LookAloneLeavesNoRecord":             lookUnrecorded,
		"RefundByIDGivesBackOnlyWhatWasSpent": lookRefund,
		"RepeatGetsStoredAnswer":              lookRepeat,
		"LeaseNeedsNoID":                      lookLease,
		"ChargeSpendsAllTheSame":              lookCharge,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			clock := NewClock(1_795_000_000_000)
			test(&recorder{T: t, clock: clock, store: h.New(t, clock.Now), who: newEntity()})
		})
	}
}

// looking sets Look on the asks at the given places.
func looking(asks []limiter.Ask, places ...int) []limiter.Ask {
	for _, i := range places {
		asks[i].Look = true
	}
	return asks
}

// looksAlone compares a look with the take that follows it, from an empty
// bucket to a full one.
func looksAlone(t *testing.T, h Harness, a limiter.Algorithm) {
	clock := NewClock(1_795_000_000_000)
	s := h.New(t, clock.Now)
	limit := slowLimit(a, 4)
	asks := newEntity().asks(2, limit)
	for i := range 3 {
		id := fmt.Sprint("take ", i)
		before := do(t, s, limiter.OpPeek, id, asks...)
		look := do(t, s, limiter.OpTake, id, looking(append([]limiter.Ask(nil), asks...), 0)...)
		if diff := cmp.Diff(before, look); diff != "" {
			t.Errorf("round %d: a look differs from a peek (-peek +look):\n%s", i, diff)
		}
		took := do(t, s, limiter.OpTake, id, asks...)
		l, d := look.Limits[0], took.Limits[0]
		if l.Allowed != d.Allowed || l.RetryAfter != d.RetryAfter || l.Delay != d.Delay {
			t.Errorf("round %d: looked %+v, took %+v", i, l, d)
		}
		if d.Allowed != (i < 2) || took.Replayed {
			t.Errorf("round %d: took %+v", i, took)
		}
		clock.Advance(3)
	}
}

func lookDenies(r *recorder) {
	r.take("", 3, threeADay)
	got := do(r.T, r.store, limiter.OpTake, "", looking(r.who.asks(1, threeADay, tenAnHour), 0)...)
	r.is("allowed", got.Allowed, false)
	r.is("each", []bool{got.Limits[0].Allowed, got.Limits[1].Allowed}, []bool{false, true})
	r.is("remaining", r.remaining(threeADay, tenAnHour), []int64{0, 10})
}

func lookPasses(r *recorder) {
	got := do(r.T, r.store, limiter.OpTake, "", looking(r.who.asks(2, threeADay, tenAnHour, fiveAnHour), 0)...)
	r.is("allowed", got.Allowed, true)
	r.is("remaining in the answer", []int64{got.Limits[0].Remaining, got.Limits[1].Remaining, got.Limits[2].Remaining},
		[]int64{3, 8, 3})
	r.is("remaining", r.remaining(threeADay, tenAnHour, fiveAnHour), []int64{3, 8, 3})
}

func lookBesideDenied(r *recorder) {
	r.take("", 3, threeADay)
	got := do(r.T, r.store, limiter.OpTake, "", looking(r.who.asks(1, threeADay, tenAnHour, fiveAnHour), 1)...)
	r.is("allowed", got.Allowed, false)
	r.is("remaining", r.remaining(threeADay, tenAnHour, fiveAnHour), []int64{0, 10, 5})
}

func lookUnrecorded(r *recorder) {
	look := func() limiter.Result {
		return do(r.T, r.store, limiter.OpTake, "a", looking(r.who.asks(2, threeADay), 0)...)
	}
	look()
	r.is("replayed", look().Replayed, false)
	got := do(r.T, r.store, limiter.OpCharge, "a", r.who.asks(2, threeADay)...)
	r.is("charge replayed", got.Replayed, false)
	r.is("remaining", r.remaining(threeADay), []int64{1})
}

func lookRefund(r *recorder) {
	r.take("", 2, threeADay)
	do(r.T, r.store, limiter.OpTake, "a", looking(r.who.asks(1, threeADay, tenAnHour), 0)...)
	r.is("refunded", r.refund("a", threeADay, tenAnHour), []int64{0, 1})
	r.is("remaining", r.remaining(threeADay, tenAnHour), []int64{1, 10})
}

func lookRepeat(r *recorder) {
	look := func() limiter.Result {
		return do(r.T, r.store, limiter.OpTake, "a", looking(r.who.asks(1, threeADay, tenAnHour), 0)...)
	}
	first := look()
	r.take("", 3, threeADay)
	again := look()
	r.is("answers", []bool{first.Allowed, again.Allowed, again.Limits[0].Allowed}, []bool{true, true, true})
	r.is("replayed", again.Replayed, true)
	r.is("what was taken", again.Limits[1], first.Limits[1])
	r.is("remaining", r.remaining(threeADay, tenAnHour), []int64{0, 9})
}

func lookLease(r *recorder) {
	asks := looking(r.who.asks(1, twoAtOnce), 0)
	r.is("allowed", do(r.T, r.store, limiter.OpTake, "", asks...).Allowed, true)
	r.take("a", 2, twoAtOnce)
	r.is("allowed when full", do(r.T, r.store, limiter.OpTake, "", asks...).Allowed, false)
	r.is("allowed for the holder", do(r.T, r.store, limiter.OpTake, "a", asks...).Allowed, true)
	r.is("remaining", r.remaining(twoAtOnce), []int64{0})
}

func lookCharge(r *recorder) {
	do(r.T, r.store, limiter.OpCharge, "", looking(r.who.asks(2, threeADay), 0)...)
	r.is("remaining", r.remaining(threeADay), []int64{1})
}
