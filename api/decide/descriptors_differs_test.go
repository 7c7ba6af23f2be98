package decide

import (
	"testing"

	"sluice/rules"
)

// What docs/envoy.md says about calls that differ from those of envoyproxy/ratelimit, and about debts.

func TestDescriptors_ALookBesideATakeIsDecidedWithIt(t *testing.T) {
	onStores(t, []rules.Rule{shop("calls", "calls", 5, charged)}, func(t *testing.T, f *fixture) {
		f.expect(t, "denied: over 0", asked("calls=a", 7, "e"))
		f.expect(t, "denied: over 0", asked("calls=a", 0, "e"))
		f.expect(t, "denied: ok 0, over 0", asked("calls=a", 0, "e"), asked("calls=a", 1, ""))
	})
}

func TestDescriptors_GCRAForgetsADebtAboveItsBurst(t *testing.T) {
	gcra := func(r *rules.Rule) { r.Algorithm, r.Burst = "gcra", new(int64(5)) }
	onStores(t, []rules.Rule{shop("calls", "calls", 5, charged, gcra)}, func(t *testing.T, f *fixture) {
		f.expect(t, "denied: over 0", asked("calls=a", 25, "e"))
		f.now.Add(2 * 60_000) // the debt of 20 units would last four minutes
		f.levels(t, "5", "calls=a")
	})
}

// While the store is unavailable, this node's own takes stay spent if a report denies their call: too much is spent,
// never too little.
func TestDescriptors_LocalTakesOfADeniedCallStaySpent(t *testing.T) {
	f := newFixture(t, []rules.Rule{shop("calls", "calls", 5, failsTo("local")),
		shop("tokens", "tokens", 5, charged, failsTo("local"))}, func(*CheckerOptions) {})
	f.store.fail(errAway)
	f.expect(t, "denied: ok 3, over 0", asked("calls=a", 2, ""), asked("tokens=a", 7, "e"))
	f.expect(t, "allowed: ok 3", asked("calls=a", 0, ""))
}
