package updates

import (
	"testing"
	"time"

	"sluice/limiter"
)

// told is an export of region eu with the sums of three regions: taken and denied of each.
func told(eu, us, asia [2]int64) *limiter.Exported {
	sums := func(n [2]int64) limiter.Sums { return limiter.Sums{Born: 1, Taken: n[0], Denied: n[1]} }
	return &limiter.Exported{Key: "a", Sums: sums(eu), Received: limiter.Received{
		{Region: "us", Sums: sums(us)}, {Region: "asia", Sums: sums(asia)},
	}}
}

func TestDemands_SharesFollowWhatWasAskedForSince(t *testing.T) {
	const full, interval = limiter.FullShare, 200 * time.Millisecond
	none := [2]int64{}
	for name, c := range map[string]struct {
		before, now *limiter.Exported
		want        limiter.Guard
	}{
		"even":  {told(none, none, none), told([2]int64{50}, [2]int64{50}, [2]int64{50}), limiter.Guard{Share: full / 3}},
		"alone": {told(none, none, none), told([2]int64{50}, none, none), limiter.Guard{Share: full * 10 / 12, Lead: true}},
		"silent": {
			told(none, none, none), told(none, [2]int64{50}, [2]int64{50}), limiter.Guard{Share: full / 12},
		},
		"denied counts": {
			told(none, none, none), told([2]int64{10, 90}, [2]int64{100}, none), limiter.Guard{Share: 30037, Lead: true},
		},
		"only since": {
			told([2]int64{900}, none, none), told([2]int64{900}, [2]int64{50}, none), limiter.Guard{Share: full / 12},
		},
		"nothing fits": {
			told(none, none, none), told([2]int64{0, 60}, [2]int64{0, 50}, none), limiter.Guard{Share: full, Lead: true},
		},
		"others lead": {
			told(none, none, none), told([2]int64{0, 50}, [2]int64{0, 60}, none), limiter.Guard{Share: 1},
		},
		"little": {
			told(none, none, none), told(none, [2]int64{1}, [2]int64{1}), limiter.Guard{Share: full / 12, Lead: true},
		},
		"nothing": {
			told(none, none, none), told(none, none, none), limiter.Guard{Share: full / 3, Lead: true},
		},
		"first, of storms": {
			nil, &limiter.Exported{Key: "a", Sums: limiter.Sums{Born: 1, Taken: 50}}, limiter.Guard{Share: full / 3},
		},
	} {
		d := NewDemands(10, interval, "eu", "us", "asia")
		at := time.UnixMilli(1_795_000_000_000)
		if c.before != nil {
			d.Guard(c.before, at)
		}
		got := d.Guard(c.now, at.Add(interval))
		if got.Share-c.want.Share > 1 || c.want.Share-got.Share > 1 || got.Lead != c.want.Lead {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Of what it remembers there is a bound, and whoever forgets counts from the beginning.
func TestDemands_AreBounded(t *testing.T) {
	d := NewDemands(2, time.Second, "eu", "us")
	for _, key := range []limiter.Key{"a", "b", "c", "d"} {
		d.Guard(&limiter.Exported{Key: key, Sums: limiter.Sums{Born: 1, Taken: 1}}, time.UnixMilli(1))
		if len(d.last) > 2 {
			t.Fatalf("%d buckets are remembered, want 2 at most", len(d.last))
		}
	}
}
