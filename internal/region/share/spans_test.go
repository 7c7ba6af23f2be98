package share

import (
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
)

// Whatever is lent: the parts of a limit add up to it.
func TestLimit_PartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, limiter.MaxExact).Draw(t, "limit")
		if rapid.Bool().Draw(t, "small") {
			n %= 50
		}
		holders := make([]Spans, rapid.IntRange(1, 50).Draw(t, "holders"))
		at := int64(0)
		for at < Whole {
			to := rapid.Int64Range(at+1, Whole).Draw(t, "to")
			if h := rapid.IntRange(0, len(holders)-1).Draw(t, "holder"); true {
				holders[h] = holders[h].Plus(Spans{{at, to}})
			}
			at = to
			if rapid.IntRange(0, 20).Draw(t, "rest") == 0 {
				holders[0] = holders[0].Plus(Spans{{at, Whole}})
				break
			}
		}
		sum := int64(0)
		for _, h := range holders {
			if !h.valid() {
				t.Fatalf("%v is not in order", h)
			}
			sum += h.Units(n)
		}
		if sum != n {
			t.Fatalf("the parts add up to %d of %d: %v", sum, n, holders)
		}
	})
}

func TestLimit_OfABucketDividesCountAndBurst(t *testing.T) {
	for name, l := range map[string]limiter.Limit{
		"small burst":  {Algorithm: limiter.TokenBucket, Count: 100, Burst: 10, Window: 1000},
		"large burst":  {Algorithm: limiter.TokenBucket, Count: 10, Burst: 100, Window: 1000},
		"never drains": {Algorithm: limiter.TokenBucket, Burst: 10, Window: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			count, burst := int64(0), int64(0)
			for i := range 3 {
				part := Limit(l, Spans{Segment(i, 3)})
				if part.Count == 0 && l.Count > 0 || part.Burst == 0 {
					t.Errorf("region %d has %+v", i, part)
				}
				count, burst = count+part.Count, burst+part.Burst
			}
			if count != l.Count || burst != l.Burst {
				t.Errorf("the parts add up to %d and a burst of %d, want %d and %d", count, burst, l.Count, l.Burst)
			}
			if got := Limit(l, Spans{{0, Whole}}); got != l {
				t.Errorf("the whole is %+v", got)
			}
		})
	}
}

func TestSpans_AreSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (s Spans) {
			for range rapid.IntRange(0, 4).Draw(t, name) {
				from := rapid.Int64Range(0, 20).Draw(t, "from")
				s = s.Plus(Spans{{from, from + rapid.Int64Range(1, 9).Draw(t, "size")}})
			}
			return s
		}
		a, b := draw("a"), draw("b")
		in := func(s Spans, at int64) bool { return len(s.And(Spans{{at, at + 1}})) > 0 }
		for at := range int64(32) {
			if in(a.Plus(b), at) != (in(a, at) || in(b, at)) || in(a.Minus(b), at) != (in(a, at) && !in(b, at)) ||
				in(a.And(b), at) != (in(a, at) && in(b, at)) {
				t.Fatalf("%d: %v, %v: plus %v, minus %v, and %v", at, a, b, a.Plus(b), a.Minus(b), a.And(b))
			}
		}
		if n := min(a.Size(), 5); a.Last(5).Size() != n || a.Last(5).Minus(a) != nil {
			t.Fatalf("the last of %v are %v", a, a.Last(5))
		}
	})
}
