package webtest

import (
	"time"

	"sluice/internal/region"
)

// sampleRegions returns the state of a region with two others. One of them has been cut off for a while.
func sampleRegions() region.Overview {
	return region.Overview{
		Self: "eu", Interval: 200 * time.Millisecond, Exported: 81_204, Waiting: 312,
		Rules: []region.Estimate{
			{Rule: "charges-per-user", OverPercent: 0.4, MaxOverPercent: 2},
			{Rule: "search-per-user", OverPercent: 3.1, MaxOverPercent: 2},
		},
		Peers: []region.Status{
			{
				Name: "us", LastUpdate: Now, Set: 42, Lags: 256, LagNow: 284 * time.Millisecond,
				LagP99: 412 * time.Millisecond, Skew: 3 * time.Millisecond, SkewKnown: true, Sent: 1_804_221, Received: 1_690_003,
				Messages: 90_211, Accepted: 80_992, Here: region.Fate{Applied: 75_120, Repeated: 412},
				Calls: region.Calls{Decided: 4_212},
			},
			{
				Name: "asia", CutOff: true, CutFor: 94 * time.Second, CutTotal: 94 * time.Second, Set: 41,
				LastUpdate: Now.Add(-94 * time.Second), Skew: -2600 * time.Millisecond, SkewKnown: true, Messages: 90_100,
				Failures: 470, Failure: "dial tcp 203.0.113.7:8080: connect: connection refused",
				FailingSince: Now.Add(-95 * time.Second),
				Calls:        region.Calls{Decided: 4_100, Failed: 210, Failing: "cut_off", Since: Now.Add(-94 * time.Second)},
				Here:         region.Fate{Applied: 20, Shrunk: 1, Unknown: 2},
			},
		},
		Shares: region.Shares{IntervalMS: 60_000, Rules: []region.RuleShares{{ // this region has lent most of its part
			Rule: "signups-in-all", Limit: 300, Share: 40, Unused: 4,
			Regions: []region.RegionShare{
				{Region: "asia", Own: 100},
				{Region: "eu", Own: 100, Asked: new(int64(30))},
				{Region: "us", Own: 100, Asked: new(int64(710)), Lent: 56, Until: new(Now.Add(2 * time.Minute))},
			},
		}}},
	}
}
