package api

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

func TestCheck_DirectCountsDownThenDenies(t *testing.T) {
	f := newFixture(t, nil)
	const body = `{"key": "user:42:GET:/v1/charges", "limit": 2, "window_ms": 60000, "algorithm": "fixed_window"}`
	for want := int64(1); want >= 0; want-- {
		r := f.check(body)
		if !r.Allowed || r.Status != 200 || *r.Limit != 2 || *r.Remaining != want || *r.RetryAfterMS != 0 ||
			r.Degraded != nil || r.Rule != nil {
			t.Fatalf("got %+v, want allowed with %d remaining", r, want)
		}
	}
	f.now.Add(11_500)
	r := f.check(body)
	if r.Allowed || r.Status != 429 || *r.Remaining != 0 || *r.RetryAfterMS != 48_500 || *r.RetryAfterS != 49 ||
		*r.ResetMS != 48_500 {
		t.Fatalf("got %+v, want denied for 48500 ms", r)
	}
	if len(r.Limits) != 1 || r.Limits[0].Key != "user:42:GET:/v1/charges" || r.Limits[0].Rule != nil {
		t.Errorf("limits: %+v", r.Limits)
	}
	f.now.Add(48_499)
	if f.check(body).Allowed {
		t.Error("allowed a millisecond early")
	}
	f.now.Add(1)
	if !f.check(body).Allowed {
		t.Error("denied after exactly retry_after_ms")
	}
}

func TestCheck_DefaultsAreWeightOneAndTheCounterWindow(t *testing.T) {
	f := newFixture(t, nil)
	f.check(`{"key":"k","limit":10,"window_ms":1000}`)
	ask := f.store.asks[0].Asks[0]
	if ask.Weight != 1 || ask.Limit.Algorithm != limiter.SlidingWindowCounter {
		t.Errorf("got weight %d and %s", ask.Weight, ask.Limit.Algorithm)
	}
}

func TestCheck_ByRulesGivesTheFiguresOfTheStrictest(t *testing.T) {
	wide := perUser("wide", 100)
	f := newFixture(t, []rules.Rule{wide, perUser("narrow", 2)})
	body := `{"method":"POST","route":"/v1/charges","user":"42"}`
	f.check(body)
	r := f.check(body)
	if !r.Allowed || *r.Rule != "narrow" || *r.Remaining != 0 || len(r.Limits) != 2 {
		t.Fatalf("got %+v", r)
	}
	r = f.check(body)
	if r.Allowed || *r.Rule != "narrow" || r.Limits[0].Allowed != true || *r.Limits[0].Remaining != 98 {
		t.Fatalf("got %+v, want the wide limit untouched by the denial", r)
	}
	if r.Limits[0].Key != "user:42" || *r.Limits[0].Rule != "wide" || r.Limits[0].Mode != "enforce" {
		t.Errorf("limits: %+v", r.Limits)
	}
	if n := len(f.store.asks[0].Asks); n != 2 || len(f.store.asks) != 3 {
		t.Errorf("%d limits in the first of %d calls, want both limits in one call a check", n, len(f.store.asks))
	}
}

func TestCheck_NoRuleAppliesAllowsWithoutFigures(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 1)})
	a := f.post("/ratelimit/check", `{"route":"/"}`)
	want := `{"allowed":true,"status":200,"degraded":null,"rule":null,"limits":[],"headers":{}}` + "\n"
	if diff := cmp.Diff(want, a.body); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(f.store.asks) != 0 {
		t.Error("the store was asked about nothing")
	}
}

func TestCheck_WeightZeroLooksWithoutSpending(t *testing.T) {
	f := newFixture(t, nil)
	for range 3 {
		r := f.check(`{"key":"k","limit":1,"window_ms":1000,"weight":0}`)
		if !r.Allowed || *r.Remaining != 1 {
			t.Fatalf("got %+v", r)
		}
	}
}

func TestCheck_WeightAboveTheLimitNeverFits(t *testing.T) {
	r := newFixture(t, nil).check(`{"key":"k","limit":5,"window_ms":1000,"weight":6}`)
	if r.Allowed || *r.RetryAfterMS != -1 || *r.RetryAfterS != -1 {
		t.Errorf("got %+v", r)
	}
	if _, ok := r.Headers["Retry-After"]; ok {
		t.Error("Retry-After promises what waiting cannot bring")
	}
}

func TestCheck_RequestIDIsChargedOnce(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 5)})
	const body = `{"user":"42","request_id":"abc"}`
	first, second := f.check(body), f.check(body)
	if first.Replayed || !second.Replayed || *second.Remaining != 4 {
		t.Errorf("got %+v then %+v", first, second)
	}
	if r := f.check(`{"user":"42"}`); *r.Remaining != 3 {
		t.Errorf("remaining %d, want 3", *r.Remaining)
	}
}

func TestCheck_ShadowNeverDeniesAndSaysSo(t *testing.T) {
	shadow := perUser("trial", 1)
	shadow.Mode = "shadow"
	f := newFixture(t, []rules.Rule{perUser("real", 10), shadow})
	body := `{"user":"42","request_id":"%d"}`
	f.check(fmt.Sprintf(body, 1))
	r := f.check(fmt.Sprintf(body, 2))
	if !r.Allowed || *r.Rule != "real" || *r.Remaining != 8 {
		t.Fatalf("got %+v, want the figures of the enforced rule", r)
	}
	got := r.Limits[1]
	if *got.Rule != "trial" || got.Mode != "shadow" || got.Allowed {
		t.Errorf("shadow limit: %+v", got)
	}
	if strings.Contains(r.Headers["RateLimit"], "trial") || strings.Contains(r.Headers["RateLimit-Policy"], "trial") {
		t.Errorf("clients see the shadow rule: %v", r.Headers)
	}
	if r := f.check(fmt.Sprintf(body, 2)); !r.Replayed {
		t.Errorf("a repeat was not replayed: %+v", r)
	}
	if w := f.check(`{"user":"42","weight":0}`); *w.Remaining != 8 {
		t.Errorf("remaining %d, want 8", *w.Remaining)
	}
	if diff := cmp.Diff([]string{"real enforce allowed", "trial shadow allowed", "real enforce allowed",
		"trial shadow denied"}, f.seen.limits[:4]); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

func TestCheck_OnlyShadowRulesAllowWithoutFigures(t *testing.T) {
	shadow := perUser("trial", 0)
	shadow.Mode = "shadow"
	r := newFixture(t, []rules.Rule{shadow}).check(`{"user":"42"}`)
	if !r.Allowed || r.Limit != nil || r.Rule != nil || len(r.Limits) != 1 || len(r.Headers) != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestCheck_LeakyQueueSaysHowLongToWait(t *testing.T) {
	f := newFixture(t, nil)
	const body = `{"key":"k","limit":10,"window_ms":1000,"burst":3,"algorithm":"leaky_queue"}`
	f.check(body)
	if r := f.check(body); *r.DelayMS != 100 {
		t.Errorf("delay %d ms, want 100", *r.DelayMS)
	}
	f.check(body)
	if r := f.check(body); r.Allowed || *r.DelayMS != 0 {
		t.Errorf("got %+v, want a denial without delay", r)
	}
}

func TestCheck_BeforeRulesAreLoadedOnlyDirectChecksWork(t *testing.T) {
	f := newFixture(t, nil)
	f.sets.Store(nil)
	f.do(http.MethodPost, "/ratelimit/check", `{"user":"42"}`).want(http.StatusServiceUnavailable)
	f.do(http.MethodPost, "/ratelimit/check/batch", `{"checks":[{"user":"42"}]}`).want(http.StatusServiceUnavailable)
	f.do(http.MethodPost, "/ratelimit/explain", `{"user":"42"}`).want(http.StatusServiceUnavailable)
	if !f.check(`{"key":"k","limit":1,"window_ms":1000}`).Allowed {
		t.Error("a direct check was denied")
	}
}

func TestCheck_CredentialsInKeysAreNeverShown(t *testing.T) {
	r := perUser("k", 5)
	r.Scope = "apikey"
	f := newFixture(t, []rules.Rule{r})
	const secret = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
	a := f.post("/ratelimit/check", `{"api_key":"`+secret+`"}`)
	if strings.Contains(a.body, secret) || strings.Contains(string(f.store.asks[0].Asks[0].Key), secret) {
		t.Errorf("the key shows: %s", a.body)
	}
}

func TestBatch_AnswersEachByItselfInOrder(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 1)})
	a := f.post("/ratelimit/check/batch",
		`{"checks":[{"user":"1"},{"user":"1"},{"user":"2"},{"key":"k","limit":1,"window_ms":1000},{"route":"/none"}]}`)
	var got struct{ Results []checkReply }
	a.decode(&got)
	want := []bool{true, false, true, true, true}
	if len(got.Results) != len(want) {
		t.Fatalf("%d results", len(got.Results))
	}
	for i, r := range got.Results {
		if r.Allowed != want[i] {
			t.Errorf("result %d: allowed %v, want %v", i, r.Allowed, want[i])
		}
	}
	if len(got.Results[4].Limits) != 0 {
		t.Error("a check to which no rule applies got limits")
	}
}

func TestBatch_Bounds(t *testing.T) {
	f := newFixture(t, nil)
	batch := func(n int) string {
		return `{"checks":[` + strings.TrimSuffix(strings.Repeat(`{"key":"k","limit":9999,"window_ms":1000},`, n), ",") + `]}`
	}
	var got struct{ Results []checkReply }
	f.post("/ratelimit/check/batch", batch(0)).decode(&got)
	f.post("/ratelimit/check/batch", batch(1000)).decode(&got)
	if len(got.Results) != 1000 || *got.Results[999].Remaining != 8999 {
		t.Errorf("%d results", len(got.Results))
	}
	f.do(http.MethodPost, "/ratelimit/check/batch", batch(1001)).want(422)
	a := f.do(http.MethodPost, "/ratelimit/check/batch",
		`{"checks":[{"key":"a","limit":1,"window_ms":1},{"key":"b","limit":-1,"window_ms":1},7]}`).want(422)
	if diff := cmp.Diff([]string{"checks[1].limit", "checks[2]"}, a.fields()); diff != "" {
		t.Errorf("fields:\n%s", diff)
	}
	if r := f.check(`{"key":"a","limit":1,"window_ms":1,"weight":0}`); *r.Remaining != 1 {
		t.Error("a refused batch spent something")
	}
}

func TestCharge_SpendsBeyondTheLimit(t *testing.T) {
	f := newFixture(t, nil)
	const body = `{"key":"k","limit":2,"window_ms":1000,"algorithm":"fixed_window","weight":3}`
	r := f.post("/ratelimit/charge", body).reply()
	if r.Allowed || r.Status != 429 || *r.Remaining != 0 {
		t.Errorf("got %+v, want charged and over", r)
	}
	if r := f.check(`{"key":"k","limit":4,"window_ms":1000,"algorithm":"fixed_window","weight":0}`); *r.Remaining != 1 {
		t.Errorf("remaining of 4 is %d, want 1: three were charged", *r.Remaining)
	}
}

func TestRefund_ByIDGivesBackOnce(t *testing.T) {
	lease := perUser("slots", 3)
	lease.Algorithm = "concurrency"
	f := newFixture(t, []rules.Rule{lease, perUser("rate", 5)})
	const body = `{"user":"42","request_id":"r1","weight":2}`
	f.check(body)
	if r := f.post("/ratelimit/refund", body).reply(); *r.Refunded != 2 || *r.Rule == "" || !r.Allowed {
		t.Errorf("first refund: %+v", r)
	}
	if r := f.post("/ratelimit/refund", body).reply(); *r.Refunded != 0 {
		t.Errorf("second refund: %+v", r)
	}
	r := f.check(`{"user":"42","weight":0}`)
	if *r.Limits[0].Remaining != 5 || *r.Limits[1].Remaining != 3 {
		t.Errorf("after the refund: %+v", r.Limits)
	}
}

func TestRefund_OfAChargeFindsItBesideConcurrencyRules(t *testing.T) {
	lease := perUser("a-slots", 3)
	lease.Algorithm, lease.Scope = "concurrency", "ip"
	f := newFixture(t, []rules.Rule{lease, perUser("rate", 5)})
	const body = `{"user":"42","ip":"203.0.113.7","request_id":"r1","weight":2}`
	f.post("/ratelimit/charge", body)
	if r := f.post("/ratelimit/refund", body).reply(); *r.Refunded != 2 {
		t.Errorf("got %+v, want 2 given back", r)
	}
}

func TestLeases_AreNeitherChargedNorRefundedWithoutTheirID(t *testing.T) {
	f := newFixture(t, nil)
	const body = `{"key":"k","limit":2,"window_ms":1000,"algorithm":"concurrency"}`
	for path, field := range map[string]string{"/ratelimit/charge": `"algorithm"`, "/ratelimit/refund": `"request_id"`} {
		if a := f.do(http.MethodPost, path, body).want(422); !strings.Contains(a.body, field) {
			t.Errorf("%s: %s does not name %s", path, a.body, field)
		}
	}
	if len(f.store.asks) != 0 {
		t.Error("the store was asked")
	}
}

func TestRefund_WithoutIDGivesBackTheNewest(t *testing.T) {
	f := newFixture(t, nil)
	const body = `{"key":"k","limit":5,"window_ms":1000,"algorithm":"fixed_window","weight":2}`
	f.check(body)
	if r := f.post("/ratelimit/refund", body).reply(); *r.Refunded != 2 || *r.Remaining != 5 {
		t.Errorf("got %+v", r)
	}
}

func TestReset_ForgetsEveryBucketOfTheRequest(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("a", 1), perUser("b", 2)})
	f.check(`{"user":"42"}`)
	r := f.post("/ratelimit/reset", `{"user":"42"}`).reply()
	if !r.Allowed || r.Status != 200 {
		t.Errorf("got %+v", r)
	}
	if r := f.check(`{"user":"42"}`); !r.Allowed || *r.Limits[1].Remaining != 1 {
		t.Errorf("after the reset: %+v", r)
	}
}

func TestCheck_ConcurrentStormAdmitsExactlyTheLimit(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("narrow", 50), perUser("wide", 1000)})
	var wg sync.WaitGroup
	var mu sync.Mutex
	allowed := 0
	for range 8 {
		wg.Go(func() {
			for range 25 {
				q := decide.Question{Op: limiter.OpTake, Descriptor: match.Descriptor{User: "42"}, Weight: 1}
				var a decide.Answer
				if err := f.checker.Do(t.Context(), &q, &a); err != nil {
					t.Error(err)
				}
				if a.Allowed() {
					mu.Lock()
					allowed++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if allowed != 50 {
		t.Errorf("%d passed, want 50", allowed)
	}
	if r := f.check(`{"user":"42","weight":0}`); *r.Limits[1].Remaining != 950 {
		t.Errorf("the wide limit has %d remaining, want 950", *r.Limits[1].Remaining)
	}
}
