package sim

import (
	"testing"

	"sluice/limiter"
)

func TestBounds_OneUnitMoreThanPublishedIsAnOverrun(t *testing.T) {
	tests := []struct {
		name  string
		limit limiter.Limit
		takes []held // the last one is one unit too many
	}{
		{"fixed window, aligned", limiter.Limit{Algorithm: limiter.FixedWindow, Count: 2, Window: 100},
			[]held{{110, 1}, {120, 1}, {199, 1}}},
		{"fixed window, first hit", limiter.Limit{Algorithm: limiter.FixedWindow, Align: limiter.AlignFirstHit, Count: 2,
			Window: 100}, []held{{150, 1}, {160, 1}, {200, 1}, {210, 1}}},
		{"log", limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 2, Window: 100}, []held{{150, 2}, {249, 1}}},
		{"counter, rolling", limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 2, Window: 100},
			[]held{{190, 2}, {210, 1}, {220, 1}}},
		{"counter, aligned", limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 2, Window: 100},
			[]held{{110, 2}, {199, 1}}},
		{"buckets", limiter.Limit{Algorithm: limiter.SlidingWindowBuckets, Buckets: 10, Count: 2, Window: 100},
			[]held{{190, 2}, {210, 1}, {220, 1}}},
		{"bucket", limiter.Limit{Algorithm: limiter.TokenBucket, Count: 1, Burst: 3, Window: 100},
			[]held{{100, 3}, {199, 1}}},
	}
	for _, tt := range tests {
		var b books
		for i, h := range tt.takes {
			b.entries = append(b.entries, entry{
				req: limiter.Request{Asks: []limiter.Ask{{Key: "k", Limit: tt.limit, Weight: h.units}}},
				res: limiter.Result{At: h.at}, moved: []int64{h.units}, of: -1,
			})
			if got, want := b.overrun("k", tt.limit, 0) != "", i == len(tt.takes)-1; got != want {
				t.Errorf("%s: overrun after take %d = %v, want %v", tt.name, i+1, got, want)
			}
		}
	}
}
