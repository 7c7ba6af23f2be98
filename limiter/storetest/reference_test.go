package storetest

import (
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
)

// TestReference_PassesItsOwnSuite shows that the parts of the suite agree with
// each other: truths, records and refusals hold for the reference too.
func TestReference_PassesItsOwnSuite(t *testing.T) {
	t.Run("Truths", func(t *testing.T) { Truths(t, referenceHarness) })
	t.Run("Records", func(t *testing.T) { Records(t, referenceHarness) })
	t.Run("Errors", func(t *testing.T) { Errors(t, referenceHarness) })
}

var referenceHarness = Harness{New: func(_ *testing.T, clock func() int64) limiter.Store {
	return NewReference(clock)
}}

// TestReference_SearchFindsWhatAScanFinds checks the one assumption behind the
// reference's searches: that without arrivals a level never grows.
func TestReference_SearchFindsWhatAScanFinds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := drawLimit(rt, rapid.SampledFrom(limiter.Algorithms()).Draw(rt, "algorithm"))
		l.Window = rapid.Int64Range(max(1, l.Buckets), 120).Draw(rt, "short window")
		m := newModel(l)
		now := clockMin
		for i := range rapid.IntRange(1, 10).Draw(rt, "charges") {
			now += rapid.Int64Range(0, l.Window).Draw(rt, "ms")
			m.spend(l, now, max(1, drawWeight(rt, l)), string(rune('a'+i)))
		}
		w := drawWeight(rt, l)
		scan := func(from, to int64, ok func(d int64) bool) int64 {
			for d := from; d <= to; d++ {
				if ok(d) {
					return d
				}
			}
			return limiter.Never
		}
		const far = 3000
		if got := admit(l, m, now, w, "").RetryAfter; got > 0 && got <= far {
			if want := scan(1, far, func(d int64) bool { return admits(l, m, now+d, w) }); got != want {
				rt.Fatalf("%+v: the search says wait %d, a scan %d", l, got, want)
			}
		}
		if got := figures(l, m, now).Reset; got >= 0 && got <= far {
			if want := scan(0, far, func(d int64) bool { return m.level(l, now+d).Sign() == 0 }); got != want {
				rt.Fatalf("%+v: the search says reset in %d, a scan %d", l, got, want)
			}
		}
	})
}
