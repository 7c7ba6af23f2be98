package api

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/api/decide"
	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/rules"
	"sluice/rules/match"
)

// runs is a rule by which a run brings its own budget for an hour, at most limit.
func runs(limit int64) rules.Rule {
	return rules.Rule{Name: "runs", Scope: "attr:run", Algorithm: "fixed_window", Limit: limit, WindowMS: 3_600_000,
		Align: new("first_hit"), LimitField: new("run_budget"), IsActive: true}
}

// child is a check of a child of a run; budget -1 is none.
func child(run string, budget, weight int64) string {
	fields := "{}"
	if budget >= 0 {
		fields = fmt.Sprintf(`{"run_budget":%d}`, budget)
	}
	return fmt.Sprintf(`{"attributes":{"run":%q},"fields":%s,"weight":%d}`, run, fields, weight)
}

func TestRun_TheFirstRequestThatCountsSetsItsLimit(t *testing.T) {
	onBothStores(t, nil, []rules.Rule{runs(1000)}, func(t *testing.T, f *fixture) {
		for _, step := range []struct {
			budget, weight int64
			allowed        bool
			limit, left    int64
		}{
			{500, 0, true, 500, 500},    // a look
			{500, 501, false, 500, 500}, // denied: sets nothing
			{-1, 0, true, 1000, 1000},
			{100, 30, true, 100, 70},
			{2000, 30, true, 100, 40}, // never raised
			{-1, 0, true, 100, 40},
			{80, 10, true, 80, 10}, // lowered
			{-1, 11, false, 80, 10},
			{60, 1, false, 60, 0}, // lowered below the 70 that are spent
			{100, 1, false, 60, 0},
		} {
			a := f.check(child("r", step.budget, step.weight))
			if a.Allowed != step.allowed || *a.Limit != step.limit || *a.Remaining != step.left ||
				a.Limits[0].Limit != step.limit {
				t.Errorf("%+v: got allowed %v, limit %d, remaining %d", step, a.Allowed, *a.Limit, *a.Remaining)
			}
		}
		if a := f.check(child("r", 100, 1)); *a.RetryAfterMS != 3_600_000 {
			t.Errorf("waits %d ms, want until the window ends", *a.RetryAfterMS)
		}
		if a := f.check(child("other", 5, 1)); !a.Allowed || *a.Remaining != 4 {
			t.Errorf("another run: %+v", a)
		}
		f.now.Add(3_600_000)
		if a := f.check(child("r", 300, 1)); !a.Allowed || *a.Remaining != 299 {
			t.Errorf("in the next window: %+v", a)
		}
	})
}

func TestRun_OverridesAndTiersGoBeforeIt(t *testing.T) {
	rule := runs(1000)
	rule.Tiers = map[string]rules.TierLimit{"gold": {Limit: new(int64(5000))}}
	onBothStores(t, nil, []rules.Rule{rule}, func(t *testing.T, f *fixture) {
		f.check(child("r", 10, 10))
		gold := strings.Replace(child("r", 10, 100), "{", `{"tier":"gold",`, 1)
		if a := f.check(gold); !a.Allowed || *a.Limit != 5000 || *a.Remaining != 4890 {
			t.Errorf("a tier: %+v", a)
		}
		f.do(http.MethodPost, "/ratelimit/rules/1/overrides", `{"key":"attr:run:r","limit":200}`).want(http.StatusCreated)
		f.reload()
		if a := f.check(child("r", 10, 90)); !a.Allowed || *a.Limit != 200 || *a.Remaining != 0 {
			t.Errorf("an override: %+v", a)
		}
		if a := f.post("/ratelimit/reset?only=close", child("r", -1, 0)).reply(); a.Ended == nil || *a.Ended {
			t.Errorf("closed what an override decides: %+v", a)
		}
		f.do(http.MethodDelete, "/ratelimit/rules/1/overrides/1", "").want(http.StatusNoContent)
		f.reload()
		if a := f.check(child("r", -1, 1)); a.Allowed || *a.Limit != 10 {
			t.Errorf("without the override: %+v", a)
		}
	})
}

func TestRun_SettlementsAndRefundsObeyItsLimit(t *testing.T) {
	reserving(t, nil, []rules.Rule{runs(1000)}, func(t *testing.T, f *fixture) {
		a := f.reserve(child("r", 100, 60))
		if got := f.settle(a.Reservation, `"weight":20`); *got.Limit != 100 || *got.Remaining != 80 || *got.Refunded != 40 {
			t.Errorf("settled down: %+v", got)
		}
		b := f.reserve(child("r", -1, 80))
		if got := f.settle(b.Reservation, `"weight":200`); got.Allowed || *got.Limit != 100 || *got.Used != 220 {
			t.Errorf("settled up: %+v", got)
		}
		if a := f.check(child("r", 100, 1)); a.Allowed {
			t.Errorf("a run that is over: %+v", a)
		}
	})
}

func TestRun_CloseEndsItWithoutAWriteToTheDatabase(t *testing.T) {
	reserving(t, nil, []rules.Rule{runs(1000), aMinute("per-user", 100)}, func(t *testing.T, f *fixture) {
		version := f.sets.Load().Version()
		open := f.reserve(child("r", 100, 60))
		end := func(body string) checkReply { return f.post("/ratelimit/reset?only=close", body).reply() }
		if a := end(child("r", -1, 0)); a.Ended == nil || !*a.Ended || len(a.Limits) != 1 || *a.Used != 60 {
			t.Errorf("closed: %+v", a)
		}
		for _, budget := range []int64{-1, 100, 1000} {
			if a := f.check(child("r", budget, 1)); a.Allowed || *a.RetryAfterMS != 3_600_000 || *a.Limit != 0 {
				t.Errorf("after it was closed: %+v", a)
			}
		}
		if a := f.settle(open.Reservation, `"weight":10`); *a.Refunded != 50 {
			t.Errorf("settled after the close: %+v", a)
		}
		if a := end(child("fresh", -1, 0)); !*a.Ended {
			t.Errorf("a run that has not begun: %+v", a)
		}
		if a := f.check(child("fresh", 10, 1)); a.Allowed || *a.RetryAfterMS != 3_600_000 {
			t.Errorf("began after it was closed: %+v", a)
		}
		if a := end(`{"user":"42"}`); *a.Ended || len(a.Limits) != 0 {
			t.Errorf("a rule without a limit_field: %+v", a)
		}
		if a := f.check(`{"user":"42"}`); !a.Allowed {
			t.Errorf("closed a bucket that cannot be: %+v", a)
		}
		f.now.Add(3_600_000)
		if a := f.check(child("r", 100, 1)); !a.Allowed || *a.Remaining != 99 {
			t.Errorf("in the next window: %+v", a)
		}
		if now := f.sets.Load().Version(); now != version {
			t.Errorf("the rules have version %d, before %d", now, version)
		}
		direct := f.do(http.MethodPost, "/ratelimit/reset?only=close", `{"key":"k","limit":1,"window_ms":1000}`)
		if got := direct.want(http.StatusUnprocessableEntity).fields(); !slices.Equal(got, []string{"only"}) {
			t.Errorf("fields %v", got)
		}
	})
}

func TestRun_BeginsInOneCall(t *testing.T) {
	f := pooled(t, "memory", nil, []rules.Rule{runs(1000)})
	f.store.mu.Lock()
	f.store.asks = nil
	f.store.mu.Unlock()
	f.check(child("r", 100, 1))
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	if len(f.store.asks) != 1 {
		t.Errorf("%d requests to the store for one check", len(f.store.asks))
	}
}

func TestRun_ExplainSaysWhereTheLimitIsFrom(t *testing.T) {
	f := newFixture(t, []rules.Rule{runs(1000)})
	f.check(child("r", 100, 30))
	for budget, want := range map[int64]string{
		-1: "The request does not have the field run_budget. The limit is what an earlier request has set",
		50: "The field run_budget allows the key 50 at most",
	} {
		a := f.post("/ratelimit/explain", child("r", budget, 1)).want(http.StatusOK)
		if limit := max(budget, -budget*100); !strings.Contains(a.body, want) ||
			!strings.Contains(a.body, fmt.Sprintf(`"limit":%d`, limit)) {
			t.Errorf("budget %d: %s", budget, a.body)
		}
	}
}

func TestRun_AnEditOfTheAlgorithmSaysThatItLosesTheLimits(t *testing.T) {
	f := newFixture(t, []rules.Rule{runs(1000)})
	file := `{"rules":[{"name":"runs","scope":"attr:run","algorithm":"sliding_window_counter","limit":1000,` +
		`"window_ms":3600000}]}`
	a := f.do(http.MethodPost, "/ratelimit/rules/import?dry_run=true", file).want(http.StatusOK)
	if !strings.Contains(a.body, "Keys lose the limits that their requests set in the field run_budget") {
		t.Errorf("got %s", a.body)
	}
}

// tenLevels are the rules of a gateway, of which a run is the narrowest.
func tenLevels() []rules.Rule {
	list := []rules.Rule{runs(50_000)}
	for i, scope := range []string{"global", "attr:org", "attr:team", "user", "apikey", "attr:model",
		"attr:org+attr:model",
		"user+attr:model", "attr:team+attr:model"} {
		r := perUser(fmt.Sprintf("level-%d", i), 1_000_000)
		r.Scope, r.WindowMS, r.Algorithm = scope, 3_600_000, "fixed_window"
		if i%2 == 1 {
			r.Algorithm = "sliding_window_counter"
		}
		list = append(list, r)
	}
	for i := range list {
		list[i].Overload = new(rules.OverloadWait)
	}
	return list
}

// A thousand children of one run at once, each of which brings the run's budget, spend exactly what fits.
func TestRun_ParallelChildrenSpendNotOneUnitMore(t *testing.T) {
	three := func(url func(testing.TB) string) func(*testing.T) []*fixture {
		return func(t *testing.T) (nodes []*fixture) {
			prefix := "runs" + strings.Repeat("y", int(prefixes.Add(1))) + ":"
			for range 3 {
				f := pooled(t, "memory", nil, tenLevels())
				client, err := redisstore.NewClient(url(t), redisstore.ClientOptions{DialTimeout: patience, Timeout: patience})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = client.Close() })
				s, err := redisstore.New(redisstore.Options{Client: client, Prefix: prefix, Clock: f.now.Load, MaxWait: patience,
					ProbeLimit: patience})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				f.store.Store = s
				nodes = append(nodes, f)
			}
			return nodes
		}
	}
	for name, open := range map[string]func(*testing.T) []*fixture{
		"memory": func(t *testing.T) []*fixture {
			return []*fixture{pooled(t, "memory", nil, tenLevels())}
		},
		"three nodes on Redis":     three(func(t testing.TB) string { return testenv.SharedRedis(t).URL() }),
		"three nodes on a cluster": three(func(t testing.TB) string { return testenv.SharedCluster(t).URL() }),
	} {
		t.Run(name, func(t *testing.T) {
			nodes := open(t)
			const budget, children = 3000, 1000
			var spent, denied, failed atomic.Int64
			var wg sync.WaitGroup
			for i := range children {
				wg.Go(func() {
					q := decide.Question{Op: limiter.OpTake, Weight: 1 + rand.Int64N(12), Descriptor: match.Descriptor{
						User: "u", APIKey: "k", Fields: map[string]int64{"run_budget": budget},
						Attributes: map[string]string{"run": "r", "org": "o", "team": "t", "model": "m"}}}
					var a decide.Answer
					err := nodes[i%len(nodes)].checker.Do(t.Context(), &q, &a)
					switch {
					case err != nil || len(a.Limits) != 10 || a.Degraded != "" || a.Verdict == decide.Overloaded:
						failed.Add(1)
					case a.Allowed():
						spent.Add(q.Weight)
					default:
						denied.Add(1)
					}
				})
			}
			wg.Wait()
			if spent.Load() > budget || spent.Load() <= budget-12 || denied.Load() == 0 || failed.Load() > 0 {
				t.Errorf("%d units passed of %d, %d denied, %d failed", spent.Load(), budget, denied.Load(), failed.Load())
			}
			if a := nodes[0].check(child("r", -1, 0)); *a.Limit != budget || *a.Used != spent.Load() {
				t.Errorf("limit %d, used %d, and %d passed", *a.Limit, *a.Used, spent.Load())
			}
			look := `{"user":"u","weight":0}`
			for _, l := range nodes[0].check(look).Limits {
				if want := int64(1_000_000) - spent.Load(); *l.Remaining != want {
					t.Errorf("%s has %d left, want %d", *l.Rule, *l.Remaining, want)
				}
			}
		})
	}
}
