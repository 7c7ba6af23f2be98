package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice/rules"
)

func shedding(limit int64) []rules.Pool {
	pools := shop(limit)
	pools[0].Shed = true
	return pools
}

// byPriority returns a rule for each priority of the pool shop, under the route of its name.
func byPriority(limit int64) (rs []rules.Rule) {
	for _, priority := range []string{"critical", "normal", "low"} {
		r := aMinute(priority, limit)
		r.Pool, r.Priority, r.Route = ptr("shop"), ptr(priority), ptr("/"+priority)
		rs = append(rs, r)
	}
	return rs
}

func TestShed_APriorityPassesUpToItsPartOfThePool(t *testing.T) {
	onBothStores(t, shedding(100), byPriority(1000), func(t *testing.T, f *fixture) {
		passed := map[string]int{}
		for _, priority := range []string{"low", "normal", "low", "critical", "normal", "low"} {
			for range 110 {
				got := f.check(fmt.Sprintf(`{"user":"42","route":"/%s"}`, priority))
				if got.Allowed {
					passed[priority]++
				}
				if got.Shed == got.Allowed || got.Limits[0].Shed == got.Allowed || got.Limits[0].Allowed != got.Allowed ||
					!got.Allowed && (got.Status != http.StatusServiceUnavailable || *got.Limit != 1000) {
					t.Fatalf("%s: %+v", priority, got)
				}
			}
		}
		if want := (map[string]int{"low": 50, "normal": 30, "critical": 20}); fmt.Sprint(passed) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", passed, want)
		}
		got := f.check(`{"user":"42","route":"/low"}`)
		if *got.Remaining != 950 {
			t.Errorf("the denied requests spent of their own limit: %+v", got)
		}
		if kind, _ := got.Body["type"].(string); !strings.HasSuffix(kind, "#temporary-reduced-capacity") ||
			fmt.Sprint(got.Body["status"], got.Body["violated-policies"]) != "503 [low]" {
			t.Errorf("body %v", got.Body)
		}
		if got.Headers["Retry-After"] == "" {
			t.Errorf("headers %v", got.Headers)
		}
	})
}

func TestShed_RetryAfterIsExact(t *testing.T) {
	onBothStores(t, shedding(100), byPriority(1000), func(t *testing.T, f *fixture) {
		f.check(`{"user":"42","route":"/critical","weight":73}`)
		got := f.check(`{"user":"42","route":"/low","weight":7}`)
		if got.Allowed || !got.Shed || *got.RetryAfterMS < 1 {
			t.Fatalf("got %+v", got)
		}
		f.now.Add(*got.RetryAfterMS - 1)
		if got := f.check(`{"user":"42","route":"/low","weight":7}`); got.Allowed {
			t.Error("allowed a millisecond before retry_after_ms")
		}
		f.now.Add(1)
		if got := f.check(`{"user":"42","route":"/low","weight":7}`); !got.Allowed {
			t.Errorf("denied after exactly retry_after_ms: %+v", got)
		}
		if got := f.check(`{"user":"42","route":"/low","weight":51}`); got.Allowed || *got.RetryAfterMS != -1 {
			t.Errorf("more than the part of low: %+v", got)
		}
	})
}

func TestShed_AReportReplacesTheCountForNormalAndLow(t *testing.T) {
	onBothStores(t, shedding(100), byPriority(1000), func(t *testing.T, f *fixture) {
		f.check(`{"user":"42","route":"/critical","weight":99}`)
		f.report("shop", `{"utilization":0.5,"ttl_ms":5000}`)
		if got := f.check(`{"user":"42","route":"/normal","weight":30}`); !got.Allowed {
			t.Errorf("30 of normal at 50 of 80: %+v", got)
		}
		if got := f.check(`{"user":"42","route":"/normal","weight":31}`); !got.Shed || *got.RetryAfterMS <= 5000 {
			t.Errorf("31 of normal at 50 of 80: %+v", got)
		}
		if got := f.check(`{"user":"42","route":"/low"}`); !got.Shed || got.Status != 503 ||
			*got.RetryAfterMS <= 5000 { // the count needs longer
			t.Errorf("low at 50 of 50: %+v", got)
		}
		f.report("shop", `{"utilization":5,"ttl_ms":5000}`)
		if got := f.check(`{"user":"42","route":"/critical"}`); !got.Shed || *got.RetryAfterMS == 5000 {
			t.Errorf("critical at a count of 129: %+v", got)
		}
		f.now.Add(120_000)
		f.report("shop", `{"utilization":5,"ttl_ms":5000}`)
		if got := f.check(`{"user":"42","route":"/critical","weight":100}`); !got.Allowed {
			t.Errorf("critical at a report of 500 %%: %+v", got)
		}
		f.now.Add(2000)
		if got := f.check(`{"user":"42","route":"/low"}`); !got.Shed || *got.RetryAfterMS <= 3000 {
			t.Errorf("low while 3 s of the report are left: %+v", got)
		}
	})
}

func TestShed_TheOwnLimitDeniesWith429(t *testing.T) {
	rs := byPriority(2)
	onBothStores(t, shedding(4), rs, func(t *testing.T, f *fixture) {
		for range 2 {
			f.check(`{"user":"a","route":"/normal"}`)
		}
		got := f.check(`{"user":"a","route":"/normal"}`)
		if got.Allowed || got.Shed || got.Status != 429 || got.Limits[0].Shed {
			t.Errorf("above the limit: %+v", got)
		}
		f.check(`{"user":"b","route":"/normal"}`)
		if got := f.check(`{"user":"b","route":"/normal"}`); !got.Shed || got.Status != 503 {
			t.Errorf("within the limit: %+v", got)
		}
		if got := f.check(`{"user":"a","route":"/normal"}`); got.Shed || got.Status != 429 {
			t.Errorf("both: %+v", got)
		}
	})
}

func TestShed_AllOrNothingWithTheOtherRules(t *testing.T) {
	low, all := byPriority(10)[2], aMinute("all", 10)
	onBothStores(t, shedding(4), []rules.Rule{low, all}, func(t *testing.T, f *fixture) {
		for range 5 {
			f.check(`{"user":"a","route":"/low"}`)
		}
		got := f.check(`{"user":"a","route":"/low","weight":0}`)
		for i := range got.Limits {
			if *got.Limits[i].Remaining != 8 {
				t.Errorf("two of five passed, and the answer is %+v", got)
			}
		}
		got = f.check(`{"user":"a","route":"/low"}`)
		if !got.Shed || got.Status != 503 || *got.Rule != "low" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestShed_ElasticRulesAndLooksAndCharges(t *testing.T) {
	r := elastic(aMinute("elastic", 2), 100, "shop", "normal")
	onBothStores(t, shedding(4), []rules.Rule{r}, func(t *testing.T, f *fixture) {
		for n := 1; n <= 3; n++ {
			if got := f.check(`{"user":"a"}`); !got.Allowed || got.Elastic != (n > 2) {
				t.Fatalf("%d: %+v", n, got)
			}
		}
		if got := f.check(`{"user":"a"}`); got.Allowed || got.Shed || got.Status != 429 {
			t.Errorf("above its limit: %+v", got)
		}
		if got := f.check(`{"user":"b"}`); !got.Shed || got.Status != 503 {
			t.Errorf("within its limit: %+v", got)
		}
		if got := f.explain(`{"user":"b","weight":1}`).Decision; !got.Shed || got.Status != 503 {
			t.Errorf("explain: %+v", got)
		}
		if got := f.post("/ratelimit/charge", `{"user":"b","weight":1}`).reply(); !got.Allowed || got.Shed {
			t.Errorf("a charge is never shed: %+v", got)
		}
	})
}

func TestShed_AShadowRuleShowsItAndDeniesNothing(t *testing.T) {
	low := byPriority(10)[2]
	low.Mode = rules.ModeShadow
	critical := byPriority(10)[0]
	critical.Route = nil
	onBothStores(t, shedding(4), []rules.Rule{critical, low}, func(t *testing.T, f *fixture) {
		f.check(`{"user":"a","route":"/low","weight":2}`)
		got := f.check(`{"user":"a","route":"/low"}`)
		if !got.Allowed || got.Shed || got.Limits[1].Allowed || !got.Limits[1].Shed || got.Limits[1].Mode != "shadow" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestShed_NothingIsShedWithoutTheMember(t *testing.T) {
	onBothStores(t, shop(4), byPriority(10), func(t *testing.T, f *fixture) {
		for range 10 {
			if got := f.check(`{"user":"a","route":"/low"}`); !got.Allowed {
				t.Fatalf("got %+v", got)
			}
		}
	})
}

func TestShed_TheWaitIsTheLaterOfReportAndCount(t *testing.T) {
	onBothStores(t, shedding(100), byPriority(1000), func(t *testing.T, f *fixture) {
		f.check(`{"user":"42","route":"/critical","weight":100}`)
		f.report("shop", `{"utilization":1,"ttl_ms":5000}`)
		long := f.check(`{"user":"42","route":"/normal"}`)
		if !long.Shed || *long.RetryAfterMS <= 5000 {
			t.Fatalf("while the count denies for longer: %+v", long)
		}
		f.now.Add(*long.RetryAfterMS - 1)
		if got := f.check(`{"user":"42","route":"/normal"}`); !got.Shed || *got.RetryAfterMS != 1 {
			t.Errorf("a moment before: %+v", got)
		}
		f.now.Add(1)
		f.report("shop", `{"utilization":1,"ttl_ms":5000}`)
		short := f.check(`{"user":"42","route":"/normal"}`)
		if !short.Shed || *short.RetryAfterMS != 5000 || *short.Limits[0].Remaining != 1000 {
			t.Errorf("while the count has room: %+v", short)
		}
		f.now.Add(5000)
		if got := f.check(`{"user":"42","route":"/normal"}`); !got.Allowed || *got.Remaining != 999 {
			t.Errorf("afterwards: %+v", got)
		}
		f.report("shop", `{"utilization":1,"ttl_ms":5000}`)
		if got := f.check(`{"user":"42","route":"/normal","weight":90}`); !got.Shed || *got.RetryAfterMS != -1 {
			t.Errorf("more than the part of the priority: %+v", got)
		}
	})
}

func TestShed_ACriticalLimitShowsItsCountBesideAReport(t *testing.T) {
	rs := byPriority(1000)
	rs[0].Route = nil // applies to requests of normal too
	onBothStores(t, shedding(100), rs, func(t *testing.T, f *fixture) {
		f.report("shop", `{"utilization":1,"ttl_ms":5000}`)
		shows := func(critical bool) {
			t.Helper()
			got := f.check(`{"user":"42","route":"/normal","weight":10}`)
			if len(got.Limits) != 2 || !got.Shed {
				t.Fatalf("%+v", got)
			}
			for _, l := range got.Limits {
				if want := critical && *l.Rule == "critical"; l.Allowed != want || l.Shed == want {
					t.Errorf("%s: %+v", *l.Rule, l)
				}
			}
		}
		f.check(`{"user":"42","route":"/other","weight":90}`)
		shows(true)
		f.check(`{"user":"42","route":"/other","weight":1}`)
		shows(false)
		if got := f.left("critical", `{"user":"42","route":"/other"}`); got != 1000-91 {
			t.Errorf("what was shed has spent: %d left", got)
		}
	})
}
