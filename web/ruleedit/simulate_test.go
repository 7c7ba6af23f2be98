package ruleedit

import (
	"testing"

	"sluice/limiter"
	"sluice/rules"
)

// A simulated request can stand for more requests than the burst admits. What passes is still what the rate and the
// burst let through.
func TestSimulate_CountsWhatASmallBurstLetsThrough(t *testing.T) {
	const day = 86_400_000
	for _, a := range []limiter.Algorithm{limiter.TokenBucket, limiter.GCRA, limiter.LeakyBucket} {
		for _, tt := range []struct {
			name                        string
			limit, window, burst, load  int64
			allowed, denied, difference int64
		}{
			{"2 in each millisecond at most", 5000, 1000, 2, 150, 6000, 16_500, 20},
			{"all within the rate", 1_000_000, day, 10, 50, 1_500_000, 0, 1000},
			{"above the rate", 1_000_000, day, 10, 150, 3_000_000, 1_500_000, 5000},
			{"a burst above the bound", 1_000_000_000_000, day, 1, 150, 3 * day, 4_500_000_000_000 - 3*day, 3 * day},
		} {
			l := limiter.Limit{Algorithm: a, Count: tt.limit, Window: tt.window, Burst: tt.burst}
			p := simulate(l, nil, 0, shapeSteady, tt.load, 0, nil, new(rules.Rule))
			if p.AllowedUnits < tt.allowed-tt.difference || p.AllowedUnits > tt.allowed+tt.difference ||
				p.DeniedUnits < tt.denied-tt.difference || p.DeniedUnits > tt.denied+tt.difference {
				t.Errorf("%s, %s: %d allowed, %d denied, want %d and %d", a, tt.name, p.AllowedUnits, p.DeniedUnits, tt.allowed,
					tt.denied)
			}
		}
	}
}
