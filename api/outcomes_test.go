package api

import (
	"fmt"
	"slices"
	"testing"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
)

func TestReport_ACheckLooksAndAChargeSpends(t *testing.T) {
	failures := byReport(aMinute("failures", 3))
	requests := aMinute("requests", 100)
	onBothStores(t, nil, []rules.Rule{failures, requests}, func(t *testing.T, f *fixture) {
		left := func(rule string, want int64) {
			t.Helper()
			for _, l := range f.check(`{"user":"42","weight":0}`).Limits {
				if *l.Rule == rule && *l.Remaining != want {
					t.Errorf("%s has %d left, want %d", rule, *l.Remaining, want)
				}
			}
		}
		for range 10 { // attempts that went well
			if got := f.check(`{"user":"42"}`); !got.Allowed {
				t.Fatalf("%+v", got)
			}
		}
		left("failures", 3)
		left("requests", 90)
		for n := range 3 {
			got := f.post("/ratelimit/charge", fmt.Sprintf(`{"user":"42","request_id":"%d"}`, n)).reply()
			if !got.Allowed || len(got.Limits) != 1 || *got.Limits[0].Rule != "failures" {
				t.Fatalf("%+v", got)
			}
		}
		left("requests", 90)
		got := f.check(`{"user":"42"}`)
		if got.Allowed || *got.Rule != "failures" || *got.RetryAfterMS != 60_000 {
			t.Fatalf("a fourth attempt: %+v", got)
		}
		left("requests", 90) // denied spends nothing
		if got := f.post("/ratelimit/refund", `{"user":"42","request_id":"1"}`).reply(); len(got.Limits) != 1 ||
			*got.Refunded != 1 {
			t.Errorf("refund: %+v", got)
		}
		left("failures", 1)
		if !f.check(`{"user":"42"}`).Allowed {
			t.Error("denied after a report was taken back")
		}
	})
}

func TestReport_AShadowRuleByReportChangesNothing(t *testing.T) {
	shadow := byReport(aMinute("trial", 3))
	shadow.Mode = rules.ModeShadow
	onBothStores(t, nil, []rules.Rule{aMinute("real", 10), shadow}, func(t *testing.T, f *fixture) {
		f.check(`{"user":"42"}`)
		f.post("/ratelimit/charge", `{"user":"42","weight":2}`)
		got := f.check(`{"user":"42","weight":0}`)
		if *got.Remaining != 7 || *got.Limits[1].Remaining != 1 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestReport_ALookAddsNothingToPoolsAndAccounts(t *testing.T) {
	r := byReport(inPool(aMinute("failures", 3), "shop", "normal"))
	f := pooled(t, "memory", shop(100), []rules.Rule{r})
	f.check(`{"user":"42"}`)
	f.wantPool(0)
	f.post("/ratelimit/charge", `{"user":"42","weight":2}`)
	f.wantPool(2)
}

func TestCandidate_IsCountedBesideTheLimitAndNeverDenies(t *testing.T) {
	r := aMinute("r", 5)
	r.Candidate = &rules.Candidate{Limit: ptr(int64(2))}
	onBothStores(t, nil, []rules.Rule{r, aMinute("other", 50)}, func(t *testing.T, f *fixture) {
		for n := 1; n <= 5; n++ {
			got := f.check(`{"user":"42"}`)
			c := got.Limits[2]
			if !got.Allowed || *got.Remaining != int64(5-n) || c.Mode != "candidate" || *c.Rule != "r" || c.Key != "user:42" ||
				c.Allowed != (n <= 2) || c.Limit != 2 || *c.Remaining != max(0, int64(2-n)) {
				t.Fatalf("request %d: %+v", n, got)
			}
			if p := got.Headers["RateLimit-Policy"]; p != `"r";q=5;w=60, "other";q=50;w=60` {
				t.Errorf("clients see %s", p)
			}
		}
		if f.check(`{"user":"42"}`).Allowed {
			t.Error("the limit itself no longer holds")
		}
		if n := countOf(f.seen.limits, "r candidate denied"); n != 4 {
			t.Errorf("%d would-be denials counted, want 4 of %v", n, f.seen.limits)
		}
	})
}

func countOf(list []string, want string) (n int) {
	for _, s := range list {
		if s == want {
			n++
		}
	}
	return n
}

func TestCandidate_RepeatsAndRefundsFindItsRecord(t *testing.T) {
	r := aMinute("r", 5)
	r.Candidate = &rules.Candidate{Limit: ptr(int64(4)), Algorithm: "token_bucket"}
	onBothStores(t, nil, []rules.Rule{r}, func(t *testing.T, f *fixture) {
		left := func(want int64) {
			t.Helper()
			if got := f.check(`{"user":"42","weight":0}`).Limits[1]; *got.Remaining != want {
				t.Errorf("the candidate has %d left, want %d", *got.Remaining, want)
			}
		}
		for range 2 {
			f.check(`{"user":"42","weight":3,"request_id":"a"}`)
		}
		left(1)
		f.post("/ratelimit/refund", `{"user":"42","request_id":"a"}`)
		left(4)
		f.post("/ratelimit/charge", `{"user":"42","weight":2}`)
		left(2)
		f.post("/ratelimit/reset", `{"user":"42"}`)
		left(4)
	})
}

func TestCandidate_MakingItTheLimitKeepsWhatTheRuleHasCounted(t *testing.T) {
	r := aMinute("r", 5)
	r.Candidate = &rules.Candidate{Limit: ptr(int64(2))}
	f := pooled(t, "memory", nil, []rules.Rule{r})
	for range 4 {
		f.check(`{"user":"42"}`)
	}
	f.edit("r", func(r *rules.Rule) { r.Limit, r.Candidate = 2, nil })
	if got := f.check(`{"user":"42"}`); got.Allowed || *got.Remaining != 0 {
		t.Errorf("consumption was lost: %+v", got)
	}
}

// edit changes a rule and puts the change in force.
func (f *fixture) edit(name string, change func(*rules.Rule)) {
	f.t.Helper()
	for _, r := range f.book.all() {
		if r.Name == name {
			change(&r)
			r.Normalize()
			if _, err := f.book.UpdateRule(f.t.Context(), rules.Actor{Kind: "system", Name: "test"}, r, 0); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	f.reload()
}

func TestJitter_OnlyEverAddsToRetryAfter(t *testing.T) {
	r := aMinute("r", 1)
	r.RetryJitterMS = ptr(int64(2000))
	draws := []int64{0, 700, 2000}
	var asked []int64
	f := pooled(t, "memory", nil, []rules.Rule{r, aMinute("plain", 1)}, func(o *decide.CheckerOptions, _ *Deps) {
		o.Rand = func(n int64) int64 {
			asked = append(asked, n)
			return draws[(len(asked)-1)%len(draws)]
		}
	})
	f.now.Add(10_500)
	f.check(`{"user":"42"}`)
	for _, more := range draws {
		got := f.check(`{"user":"42"}`)
		want := 49_500 + more
		seconds := fmt.Sprint((want + 999) / 1000)
		if *got.RetryAfterMS != want || *got.Limits[0].RetryAfterMS != want || *got.Limits[1].RetryAfterMS != 49_500 ||
			*got.Rule != "r" ||
			fmt.Sprint(*got.RetryAfterS) != seconds || got.Headers["Retry-After"] != seconds ||
			got.Body["detail"] != "Please try again in "+seconds+" seconds." {
			t.Errorf("with %d more: %+v", more, got)
		}
	}
	if !slices.Equal(asked, []int64{2001, 2001, 2001}) {
		t.Errorf("drew from %v", asked)
	}
	var batch struct{ Results []checkReply }
	f.post("/ratelimit/check/batch", `{"checks":[{"user":"42"},{"user":"42"},{"user":"42","weight":5}]}`).decode(&batch)
	if a, b := *batch.Results[0].RetryAfterMS, *batch.Results[1].RetryAfterMS; a != 49_500 || b != 50_200 {
		t.Errorf("in a batch: %d and %d", a, b)
	}
	if got := *batch.Results[2].RetryAfterMS; got != -1 {
		t.Errorf("waiting never helps, yet %d", got)
	}
	drawn := len(asked)
	if got := f.explain(`{"user":"42"}`).Decision; *got.RetryAfterMS != 49_500 || len(asked) != drawn {
		t.Errorf("an explanation is jittered: %+v", got)
	}
}

func TestJitter_DrawsByItselfWithinItsBounds(t *testing.T) {
	r := aMinute("r", 0)
	r.Algorithm, r.Limit, r.RetryJitterMS = "token_bucket", 1, ptr(int64(10))
	f := pooled(t, "memory", nil, []rules.Rule{r})
	f.check(`{"user":"42"}`)
	seen := map[int64]bool{}
	for range 500 {
		seen[*f.check(`{"user":"42"}`).RetryAfterMS-60_000] = true
	}
	for more := range seen {
		if more < 0 || more > 10 {
			t.Errorf("%d ms more", more)
		}
	}
	if len(seen) < 8 {
		t.Errorf("hardly any jitter: %v", seen)
	}
}

func TestHot_TheRulesChoiceReachesTheStore(t *testing.T) {
	r := aMinute("r", 5)
	r.HotKeys, r.HotRaisePercent = rules.HotKeysLeased, ptr(int64(50))
	f := pooled(t, "memory", shop(10), []rules.Rule{inPool(r, "shop", "normal")})
	f.check(`{"user":"42"}`)
	asks := f.store.asks[0].Asks
	if len(asks) != 2 || asks[0].Hot != limiter.HotLeased || asks[0].HotRaise != 50 || asks[1].Hot != limiter.HotExact {
		t.Errorf("got %+v", asks)
	}
}
