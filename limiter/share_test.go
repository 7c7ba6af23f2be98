package limiter

import "testing"

func TestShare_DividesWithoutRoundingUpOrToNothing(t *testing.T) {
	for _, tt := range []struct{ count, burst, n, wantCount, wantBurst int64 }{
		{100, 0, 4, 25, 0}, {100, 50, 3, 33, 16}, {10, 10, 1, 10, 10}, {10, 10, 0, 10, 10},
		{2, 1, 5, 1, 1}, {0, 0, 5, 0, 0}, {0, 9, 3, 0, 3}, {MaxExact, MaxExact, 2, MaxExact / 2, MaxExact / 2},
	} {
		for _, a := range Algorithms() {
			l := Limit{Algorithm: a, Count: tt.count, Window: 1000, Burst: tt.burst}
			want := Limit{Algorithm: a, Count: tt.wantCount, Window: 1000, Burst: tt.wantBurst}
			if got := l.Share(tt.n); got != want {
				t.Errorf("%v shared by %d: got %v, want %v", l, tt.n, got, want)
			}
		}
	}
}

func TestShare_OfAValidLimitIsValid(t *testing.T) {
	for _, a := range Algorithms() {
		l := Limit{Algorithm: a, Count: 3, Window: 1000}
		if a.Bucketed() {
			l.Burst = 2
		}
		if a == SlidingWindowBuckets {
			l.Buckets = 10
		}
		if err := l.Share(7).Validate(); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
}

func TestPart_AllTogetherAreTheLimit(t *testing.T) {
	for _, whole := range []Limit{
		{Count: 100, Burst: 7}, {Count: 2, Burst: 2}, {Count: 0, Burst: 5}, {Count: MaxExact, Burst: 3},
		{Count: 12, Burst: 12},
	} {
		for n := range int64(14) {
			var sum Limit
			for rank := range max(n, 1) {
				part := whole.Part(rank, n)
				sum.Count, sum.Burst = sum.Count+part.Count, sum.Burst+part.Burst
				if first := whole.Part(0, n); first.Count-part.Count > 1 || first.Burst-part.Burst > 1 {
					t.Errorf("%v among %d: %v and %v", whole, n, first, part)
				}
			}
			if sum != whole {
				t.Errorf("%v among %d: the parts add up to %v", whole, n, sum)
			}
		}
	}
}
