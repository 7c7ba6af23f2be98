package limiter

import (
	"testing"

	"pgregory.net/rapid"
)

func TestRaise_GrowsTheCapacityAndLeavesTheRate(t *testing.T) {
	for _, c := range []struct {
		name      string
		limit     Limit
		percent   int64
		count     int64
		burst     int64
		increased int64
	}{
		{"a window", Limit{Algorithm: FixedWindow, Count: 100, Window: 60_000}, 10, 110, 0, 10},
		{"rounded down", Limit{Algorithm: SlidingWindowCounter, Count: 19, Window: 1000}, 10, 20, 0, 1},
		{"too small to grow", Limit{Algorithm: SlidingWindowCounter, Count: 9, Window: 1000}, 10, 9, 0, 0},
		{"a bucket", Limit{Algorithm: TokenBucket, Count: 5, Window: 1000, Burst: 40}, 50, 5, 60, 20},
		{"a log at its bound", Limit{Algorithm: SlidingWindowLog, Count: MaxLogUnits - 1, Window: 1000}, 100, MaxLogUnits, 0,
			1},
		{"nothing", Limit{Algorithm: FixedWindow, Count: 0, Window: 1000}, 1000, 0, 0, 0},
		{"no percentage", Limit{Algorithm: FixedWindow, Count: 7, Window: 1000}, 0, 7, 0, 0},
		{"the largest", Limit{Algorithm: FixedWindow, Count: MaxExact, Window: 1000}, 10_000, MaxExact, 0, 0},
	} {
		got := c.limit.Raise(c.percent)
		if got.Count != c.count || got.Burst != c.burst || got.Capacity()-c.limit.Capacity() != c.increased {
			t.Errorf("%s: got %+v", c.name, got)
		}
	}
}

func TestRaise_OfAValidLimitIsValidAndExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Algorithm: rapid.SampledFrom(Algorithms()).Draw(t, "algorithm"),
			Window: rapid.Int64Range(1, MaxWindow).Draw(t, "window")}
		capacity := rapid.Int64Range(0, l.MaxCapacity()).Draw(t, "capacity")
		l.Count = capacity
		if l.Algorithm.Bucketed() {
			l.Count, l.Burst = rapid.Int64Range(1, MaxExact).Draw(t, "count"), capacity
		}
		if l.Algorithm == SlidingWindowBuckets {
			l.Buckets = min(l.Window, DefaultBuckets)
		}
		if ps := l.Problems(); ps != nil {
			t.Fatalf("the test made an invalid limit: %+v: %v", l, ps)
		}
		percent := rapid.Int64Range(1, 10_000).Draw(t, "percent")
		got := l.Raise(percent)
		if ps := got.Problems(); ps != nil {
			t.Fatalf("%+v raised by %d %% is invalid: %v", l, percent, ps)
		}
		if capacity <= MaxExact/20_000 {
			if want := min(capacity+capacity*percent/100, l.MaxCapacity()); got.Capacity() != want {
				t.Fatalf("%d raised by %d %% is %d, want %d", capacity, percent, got.Capacity(), want)
			}
		}
	})
}
