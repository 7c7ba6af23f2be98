package script

import (
	"testing"

	"sluice/limiter"
)

// The twin of an algorithm under another align has a code of its own. Without a
// list, the algorithm after the last would have the code of first_hit, and the
// sixteenth would look like the zeroth in an ask that looks.
func TestCodes_NoTwoAlgorithmsShareOne(t *testing.T) {
	of := map[int64]limiter.Limit{}
	for _, a := range append(limiter.Algorithms(), limiter.Ban, limiter.Tally) {
		for _, align := range []limiter.Align{limiter.AlignCalendar, limiter.AlignFirstHit} {
			l := limiter.Limit{Algorithm: a, Align: align}
			code := codeOf(&l)
			if code == 0 {
				if align == limiter.AlignCalendar || a == limiter.FixedWindow {
					t.Errorf("%s, %s: no code, so the script cannot decide it", a, align)
				}
				continue
			}
			if other, taken := of[code]; taken {
				t.Errorf("%s, %s and %s, %s: both have code %d", a, align, other.Algorithm, other.Align, code)
			}
			of[code] = l
		}
	}
	known := len(of)
	for a := range 256 {
		for _, align := range []limiter.Align{limiter.AlignCalendar, limiter.AlignFirstHit, 2} {
			if code := codeOf(&limiter.Limit{Algorithm: limiter.Algorithm(a), Align: align}); code != 0 {
				known--
			}
		}
	}
	if known != 0 {
		t.Errorf("%d codes are given to what is no algorithm", -known)
	}
}

// What an ask says with the mark of looking is never what another says without.
func TestCodes_MarksReachNoOtherCode(t *testing.T) {
	for _, a := range append(limiter.Algorithms(), limiter.Ban, limiter.Tally) {
		if code := codeOf(&limiter.Limit{Algorithm: a}); code >= looks {
			t.Errorf("%s has code %d, which reads as one that looks", a, code)
		}
	}
	for op := range limiter.Op(len(operations)) {
		if operations[op] == "" {
			t.Errorf("%s has no name in the script", op)
		}
	}
	for op := limiter.OpTake; op <= limiter.OpSettle; op++ {
		if int(op)+keeps >= plain {
			t.Errorf("%s with a time to keep its record reads as a plain take", op)
		}
	}
}

// Records in Redis name algorithms by their codes.
func TestCodes_OfRecordsStayWhatTheyAre(t *testing.T) {
	for code, l := range map[int64]limiter.Limit{
		1: {Algorithm: limiter.FixedWindow}, 2: {Algorithm: limiter.SlidingWindowLog},
		3: {Algorithm: limiter.SlidingWindowCounter},
		4: {Algorithm: limiter.SlidingWindowBuckets}, 5: {Algorithm: limiter.TokenBucket}, 6: {Algorithm: limiter.GCRA},
		7: {Algorithm: limiter.LeakyBucket}, 8: {Algorithm: limiter.LeakyQueue}, 9: {Algorithm: limiter.Concurrency},
		10: {Algorithm: limiter.FixedWindow, Align: limiter.AlignFirstHit},
		11: {Algorithm: limiter.Ban},
	} {
		if got := codeOf(&l); got != code {
			t.Errorf("%s, %s: got %d, want %d", l.Algorithm, l.Align, got, code)
		}
	}
}
