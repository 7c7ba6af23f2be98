package updates

import (
	"testing"
	"testing/synctest"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// hour is a window in which the buckets of these tests drain.
const hour = 3_600_000

// tiered is a set of one rule whose tier "t" has another limit.
func tiered(t *testing.T, algorithm limiter.Algorithm, own, tier int64) *match.Set {
	t.Helper()
	set, err := match.Compile([]rules.Rule{{ID: 1, Name: "r", Scope: "user", Limit: own, Burst: new(own), WindowMS: hour,
		Algorithm: algorithm.String(), Span: rules.SpanGlobal, IsActive: true,
		Tiers: map[string]rules.TierLimit{"t": {Limit: new(tier), Burst: new(tier)}}}}, 7, match.Options{Regions: 2})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// A tier may drain faster or more slowly than the rule. Other regions count its units at its own rate.
func TestExchange_CountsWhatATierHasSpentAtItsRate(t *testing.T) {
	for _, algorithm := range []limiter.Algorithm{limiter.TokenBucket, limiter.LeakyBucket, limiter.GCRA} {
		for name, c := range map[string]struct{ own, tier, units, every, times, left int64 }{
			"faster": {own: 100, tier: 10_000, units: 2, every: 1, times: 120, left: 9998}, // 2.8 drain in a second
			"slower": {own: 10_000, tier: 100, units: 3, every: 60, times: 5, left: 93},    // of 15 units 8 drain
		} {
			t.Run(algorithm.String()+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, "eu", "us")
					for _, p := range w.places {
						p.opt.Sets.Store(tiered(t, algorithm, c.own, c.tier))
					}
					a := limiter.Ask{Key: limiter.Key("{user:ada}|1|" + algorithm.Kind()), Spans: true, Guard: limiter.GuardOpen,
						Limit: limiter.Limit{Algorithm: algorithm, Count: c.tier, Burst: c.tier, Window: hour}}
					w.run(func() {
						pass(interval)
						for range c.times {
							a.Weight = c.units
							w.places["eu"].request(t, a)
							pass(time.Duration(c.every) * time.Second)
						}
						a.Weight = 0
						for name, p := range w.places {
							if left := p.request(t, a); left < c.left-1 || left > c.left+2 {
								t.Errorf("%d are left in %s, want %d", left, name, c.left)
							}
						}
					})
				})
			})
		}
	}
}
