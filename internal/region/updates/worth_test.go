package updates

import (
	"testing"
	"testing/synctest"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// use takes units with a limit and returns how many remain.
func (p *place) use(t *testing.T, key limiter.Key, l limiter.Limit, units int64) int64 {
	t.Helper()
	return p.request(t, limiter.Ask{Key: key, Spans: true, Weight: units, Limit: l})
}

// request takes what is asked for and returns how many units remain.
func (p *place) request(t *testing.T, a limiter.Ask) int64 {
	t.Helper()
	var res limiter.Result
	req := limiter.Request{Op: limiter.OpTake, Asks: []limiter.Ask{a}}
	if err := p.store.Do(t.Context(), &req, &res); err != nil {
		t.Fatal(err)
	}
	return res.Limits[0].Remaining
}

// A bucket has the limit of the requests that use it. A tier may have far less than the rule.
func TestExchange_TellsWhatATierHasSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		set, err := match.Compile([]rules.Rule{{ID: 1, Name: "r", Scope: "user", Limit: 100_000, WindowMS: 3_600_000,
			Algorithm: "fixed_window", Span: rules.SpanGlobal, IsActive: true,
			Tiers: map[string]rules.TierLimit{"free": {Limit: new(int64(100))}}}}, 7, match.Options{Regions: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range w.places {
			p.opt.Sets.Store(set)
		}
		free := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 100, Window: 3_600_000}
		w.run(func() {
			pass(interval)
			w.places["eu"].use(t, ada, free, 100)
			pass(3 * interval)
			if left := w.places["us"].use(t, ada, free, 0); left != 0 {
				t.Errorf("%d units of the tier are left elsewhere, want 0", left)
			}
		})
	})
}

// A node that does not have a rule yet, because its database is behind, may have the turn.
func TestExchange_TellsOfARuleThatTheNodeWithTheTurnLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		eu, us := w.places["eu"], w.places["us"]
		us.opt.Sets.Store(setOf(t, 8, "r", "new"))
		const bob = limiter.Key("{user:bob}|2|fw")
		w.run(func() {
			pass(interval)
			eu.spend(t, bob, 100) // another node of the region, which has the rule, would have taken it
			pass(3 * interval)
			eu.opt.Sets.Store(setOf(t, 8, "r", "new"))
			pass(20 * interval)
			if left := us.spend(t, bob, 0); left != 0 {
				t.Errorf("%d units are left elsewhere, want 0", left)
			}
		})
	})
}

// Regions whose windows begin at the first unit must hear of it, or each has windows of its own for good and spends the
// whole limit in each.
func TestExchange_TellsWhereAWindowBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		set, err := match.Compile([]rules.Rule{{ID: 1, Name: "r", Scope: "user", Limit: 1000, WindowMS: 60_000,
			Algorithm: "fixed_window", Align: new("first_hit"), Span: rules.SpanGlobal, IsActive: true}}, 7,
			match.Options{Regions: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range w.places {
			p.opt.Sets.Store(set)
		}
		l := limiter.Limit{Algorithm: limiter.FixedWindow, Align: limiter.AlignFirstHit, Count: 1000, Window: 60_000}
		w.run(func() {
			pass(interval)
			w.places["eu"].use(t, ada, l, 1)
			pass(30 * time.Second)
			spent := int64(0)
			for range 3000 { // five minutes
				for _, name := range []string{"eu", "us"} {
					left := w.places[name].use(t, ada, l, 0)
					w.places[name].use(t, ada, l, min(left, 20))
					spent += min(left, 20)
				}
				pass(interval / 2)
			}
			if spent > 6600 {
				t.Errorf("%d units spent in five minutes of a limit of 1000 a minute", spent)
			}
		})
	})
}

// Tiers may use one bucket in turn. That each drains in a time of its own must not make what was spent forgotten.
func TestExchange_TellsWhatTiersSpendInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		const key = limiter.Key("{user:ada}|1|lv")
		set, err := match.Compile([]rules.Rule{{ID: 1, Name: "r", Scope: "user", Limit: 100, Burst: new(int64(100)),
			WindowMS: 3_600_000, Algorithm: "token_bucket", Span: rules.SpanGlobal, IsActive: true,
			Tiers: map[string]rules.TierLimit{"pro": {Limit: new(int64(200)), Burst: new(int64(100))}}}}, 7,
			match.Options{Regions: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range w.places {
			p.opt.Sets.Store(set)
		}
		own := limiter.Limit{Algorithm: limiter.TokenBucket, Count: 100, Burst: 100, Window: 3_600_000}
		pro := own
		pro.Count = 200
		w.run(func() {
			pass(interval)
			for range 40 {
				w.places["eu"].use(t, key, own, 1)
				w.places["eu"].use(t, key, pro, 1)
			}
			pass(3 * interval)
			if left := w.places["us"].use(t, key, own, 0); left > 21 {
				t.Errorf("%d units of 100 are left elsewhere, want 20", left)
			}
		})
	})
}
