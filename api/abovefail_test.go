package api

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"sluice/api/decide"
	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// local makes a rule one that this node decides by itself in an outage.
func local(r rules.Rule) rules.Rule {
	r.FailMode = rules.FailLocal
	return r
}

func TestAbove_DuringAnOutage(t *testing.T) {
	rs := []rules.Rule{soft(local(aMinute("soft", 10)), 10),
		elastic(local(aMinute("elastic", 20)), 100, "shop", "critical")}
	rs[0].Route, rs[1].Route = ptr("/soft"), ptr("/elastic")
	f := pooled(t, "memory", shop(100), rs)
	f.store.fail(errAway)
	for n := 1; n <= 12; n++ {
		got := f.check(`{"user":"42","route":"/soft"}`)
		if got.Allowed != (n <= 11) || got.Soft != (n == 11) || *got.Degraded != "local" || *got.Limit != 10 ||
			*got.Remaining != max(0, int64(10-n)) {
			t.Errorf("soft %d: %+v", n, got)
		}
	}
	for n := 1; n <= 21; n++ {
		got := f.check(`{"user":"42","route":"/elastic"}`)
		if got.Allowed != (n <= 20) || got.Elastic || *got.Limit != 20 {
			t.Errorf("elastic %d: %+v", n, got)
		}
	}
	f.edit("soft", func(r *rules.Rule) { r.FailMode = rules.FailClosed })
	if got := f.check(`{"user":"43","route":"/soft"}`); got.Allowed || got.Soft || got.Status != 503 {
		t.Errorf("closed: %+v", got)
	}
}

func TestAbove_OutageStartsFromWhatTheStoreAdmitted(t *testing.T) {
	r := soft(local(aMinute("soft", 10)), 100)
	elastically := elastic(local(aMinute("elastic", 10)), 100, "shop", "critical")
	elastically.Route, r.Route = ptr("/elastic"), ptr("/soft")
	f := pooled(t, "memory", shop(100), []rules.Rule{r, elastically}, bookkeeping)
	for range 15 {
		f.check(`{"user":"42","route":"/soft"}`)
		f.check(`{"user":"42","route":"/elastic"}`)
	}
	f.store.fail(errAway)
	passed := 0
	for range 10 {
		if f.check(`{"user":"42","route":"/soft"}`).Allowed {
			passed++
		}
		if f.check(`{"user":"42","route":"/elastic"}`).Allowed {
			t.Error("an elastic limit went above itself in an outage")
		}
	}
	if passed != 5 {
		t.Errorf("%d passed, want the 5 that were left of 20", passed)
	}
}

func bookkeeping(o *decide.CheckerOptions, _ *Deps) {
	var err error
	if o.Ledger, err = decide.NewLedger(decide.LedgerOptions{Local: o.Local, Now: o.Now}); err != nil {
		panic(err)
	}
}

// narrowStore cannot decide anything about a limit above its own.
type narrowStore struct {
	limiter.Store
	most int64
}

func (s narrowStore) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	if slices.ContainsFunc(req.Asks, func(a limiter.Ask) bool {
		return a.Limit.Algorithm == limiter.FixedWindow &&
			a.Limit.Count > s.most
	}) {
		return &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: true, Err: context.DeadlineExceeded}
	}
	return s.Store.Do(ctx, req, res)
}

func TestAbove_ASecondAttemptThatFailsLeavesTheDenial(t *testing.T) {
	f := pooled(t, "memory", shop(100), []rules.Rule{elastic(aMinute("elastic", 1), 100, "shop", "critical")})
	f.store.Store = narrowStore{f.store.Store, 1}
	f.check(`{"user":"42"}`)
	got := f.check(`{"user":"42"}`)
	if got.Allowed || got.Status != 429 || got.Degraded != nil || *got.Limit != 1 || *got.Remaining != 0 ||
		*got.RetryAfterMS != 60_000 {
		t.Errorf("got %+v, want what the first attempt said", got)
	}
	if want := []string{" timeout"}; !slices.Equal(f.seen.degraded, want) {
		t.Errorf("observed %q, want %q", f.seen.degraded, want)
	}
}

func TestAbove_InABatchEachRequestForItself(t *testing.T) {
	rs := []rules.Rule{elastic(aMinute("elastic", 2), 100, "shop", "normal"), aMinute("hard", 7)}
	onBothStores(t, shop(100), rs, func(t *testing.T, f *fixture) {
		var batch struct{ Results []checkReply }
		f.post("/ratelimit/check/batch", `{"checks":[{"user":"a"},{"user":"a"},{"user":"a"},{"user":"b"},{"user":"a","weight":3},{"user":"a"},{"user":"a"},{"key":"k","limit":1,"window_ms":1000}]}`).decode(&batch)
		var got []string
		for _, r := range batch.Results {
			got = append(got, fmt.Sprint(r.Allowed, r.Elastic))
		}
		want := []string{"true false", "true false", "true true", "true false", "false false", "true true", "false false",
			"true false"}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		f.wantPool(5)
	})
}

func TestAbove_HardAndElasticAreTakenTogetherOrNotAtAll(t *testing.T) {
	rs := []rules.Rule{elastic(aMinute("elastic", 2), 400, "shop", "normal"), aMinute("hard", 3),
		byReport(aMinute("failures", 5))}
	onBothStores(t, shop(100), rs, func(t *testing.T, f *fixture) {
		for n := 1; n <= 3; n++ {
			if got := f.check(`{"user":"42"}`); !got.Allowed || got.Elastic != (n > 2) {
				t.Fatalf("%d: %+v", n, got)
			}
		}
		got := f.check(`{"user":"42"}`)
		if got.Allowed || *got.Rule != "elastic" || *got.Limits[1].Remaining != 0 {
			t.Errorf("%+v", got)
		}
		f.wantPool(3)
	})
}

func TestShadow_ElasticAndSoftSayWhatTheyWouldDo(t *testing.T) {
	s, e := soft(aMinute("soft", 2), 50), elastic(aMinute("elastic", 2), 100, "shop", "normal")
	s.Mode, e.Mode = rules.ModeShadow, rules.ModeShadow
	onBothStores(t, shop(10), []rules.Rule{s, e, inPool(aMinute("real", 50), "shop", "critical")},
		func(t *testing.T, f *fixture) {
			for n := 1; n <= 5; n++ {
				got := f.check(fmt.Sprintf(`{"user":"42","request_id":"%d"}`, n))
				soft, elastic := got.Limits[1], got.Limits[2]
				if !got.Allowed || got.Soft || got.Elastic || soft.Mode != "shadow" || elastic.Mode != "shadow" ||
					soft.Allowed != (n <= 3) || soft.Soft != (n == 3) || elastic.Allowed != (n <= 4) ||
					elastic.Elastic != (n == 3 || n == 4) {
					t.Errorf("%d: %+v", n, got)
				}
			}
			f.wantPool(5) // what the enforced rule let through, once
			if got := f.check(`{"user":"42","request_id":"3"}`); !got.Replayed || !got.Limits[1].Soft || !got.Limits[2].Elastic {
				t.Errorf("repeated: %+v", got)
			}
			for range 4 { // the pool is used up to 90 %
				f.check(`{"user":"43"}`)
			}
			for n := 1; n <= 3; n++ {
				if got := f.check(`{"user":"44","weight":0}`).Limits[2]; !got.Allowed {
					t.Errorf("%+v", got)
				}
			}
		})
}

func TestElastic_StormNeverTakesThePoolAboveItsShare(t *testing.T) {
	// Each of 40 users may go from 1 to 101; the pool has 200, of which low
	// priority may find 100 in use, its own within-limit traffic included.
	r := elastic(aMinute("low", 1), 10_000, "shop", "low")
	r.WindowMS = 31_536_000_000
	pools := shop(200)
	pools[0].WindowMS = r.WindowMS
	f := pooled(t, "memory", pools, []rules.Rule{r})
	f.store.Store = onRedis(t, nil)
	var mu sync.Mutex
	within, above := 0, 0
	var wg sync.WaitGroup
	for user := range 40 {
		wg.Go(func() {
			q := decide.Question{Descriptor: match.Descriptor{User: fmt.Sprint(user)}, Weight: 1}
			for range 12 {
				var a decide.Answer
				if err := f.checker.Do(t.Context(), &q, &a); err != nil || a.Degraded != "" {
					t.Errorf("%v %q", err, a.Degraded)
					return
				}
				mu.Lock()
				switch {
				case a.Elastic:
					above++
				case a.Allowed():
					within++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// How much goes above depends on who comes first, as traffic within its limit
	// passes even when the share is used up; but every unit up to it is given away.
	if within != 40 || within+above < 100 || above > 100 {
		t.Errorf("%d within their limits and %d above", within, above)
	}
	f.wantPool(int64(within + above))
	if within+above > 100 {
		t.Logf("%d came within their limits after the share was used up", within+above-100)
	}
}

func TestElastic_AcrossTheSlotsOfACluster(t *testing.T) {
	rs := []rules.Rule{elastic(aMinute("elastic", 2), 400, "shop", "normal"), aMinute("hard", 7)}
	f := pooled(t, "memory", shop(15), rs)
	f.store.Store = at(t, testenv.SharedCluster(t).URL(), f.now.Load)
	passed := map[string]int{}
	for _, user := range []string{"a", "b", "c"} {
		for n := 1; n <= 9; n++ {
			got := f.check(fmt.Sprintf(`{"user":%q,"request_id":"%s%d"}`, user, user, n))
			if got.Degraded != nil || got.Elastic != (got.Allowed && n > 2) {
				t.Fatalf("%s %d: %+v", user, n, got)
			}
			if got.Allowed {
				passed[user]++
			}
		}
	}
	// a goes up to its hard 7; b up to what is left of 80 % of 15; c has its own.
	if want := (map[string]int{"a": 7, "b": 5, "c": 2}); fmt.Sprint(passed) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", passed, want)
	}
	if got := f.check(`{"user":"b","request_id":"b5"}`); !got.Replayed || !got.Elastic {
		t.Errorf("repeated: %+v", got)
	}
	f.wantPool(14)
	if got := f.post("/ratelimit/refund", `{"user":"b","request_id":"b5"}`).reply(); *got.Refunded != 1 {
		t.Errorf("refund: %+v", got)
	}
	f.wantPool(13)
}
