package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/rules"
)

func denying(r rules.Rule, status int64, retry string) rules.Rule {
	r.Denial = &rules.Denial{Status: status, Retry: retry}
	return r
}

func TestDenial_TheStrictestRuleSetsTheStatusAndTheWait(t *testing.T) {
	list := []rules.Rule{aMinute("plain", 2), denying(aMinute("payment", 3), 402, rules.RetryNever)}
	onBothStores(t, nil, list, func(t *testing.T, f *fixture) {
		if a := f.check(`{"user":"42","weight":2}`); a.Status != 200 {
			t.Fatalf("got %+v", a)
		}
		if a := f.check(`{"user":"42"}`); a.Status != 429 || a.Headers["Retry-After"] != "60" {
			t.Errorf("only the plain rule denies: got %+v", a)
		}
		for _, op := range []string{"check", "charge"} {
			a := f.post("/ratelimit/"+op, `{"user":"42","weight":2}`).reply()
			if a.Status != 402 || a.Body["status"] != 402.0 || a.Headers["Retry-After"] != "" ||
				a.Headers["X-RateLimit-Reset"] != "" || a.Body["message"] != "Too many requests. Waiting does not help." {
				t.Errorf("%s: waiting does not end a denial: got %+v", op, a)
			}
		}
	})
}

func TestDenial_OfAFailModeIsA503(t *testing.T) {
	r := denying(aMinute("r", 5), 402, rules.RetryNever)
	r.FailMode = rules.FailClosed
	f := newFixture(t, []rules.Rule{r})
	f.store.fail(errAway)
	if a := f.check(`{"user":"42"}`); a.Status != 503 || a.Headers["Retry-After"] != "1" {
		t.Errorf("got %+v", a)
	}
}

func TestDenial_OfAPoolIsA503ThatEnds(t *testing.T) {
	r := denying(aMinute("r", 500), 402, rules.RetryNever)
	r.Pool = new("shop")
	onBothStores(t, shedding(100), []rules.Rule{r}, func(t *testing.T, f *fixture) {
		f.check(`{"user":"42","weight":80}`)
		if a := f.check(`{"user":"42"}`); a.Status != 503 || a.Headers["Retry-After"] == "" {
			t.Errorf("got %+v", a)
		}
	})
}

func TestHidden_ClientsSeeTheOthers(t *testing.T) {
	hide := func(r rules.Rule) rules.Rule { r.Hidden = true; return r }
	list := []rules.Rule{hide(aMinute("secret", 2)), aMinute("wide", 50), aMinute("narrow", 7)}
	list[1].Route, list[2].Route = new("/wide"), new("/wide")
	onBothStores(t, nil, list, func(t *testing.T, f *fixture) {
		for _, weight := range []string{"1", "2", "3"} { // allowed, denied for a time, and for ever
			for _, route := range []string{"/", "/wide"} {
				a := f.check(`{"user":"` + route[1:] + `x","route":"` + route + `","weight":` + weight + `}`)
				if *a.Rule != "secret" || *a.Limit != 2 {
					t.Errorf("the answer itself does not name the rule: %+v", a)
				}
				names := make([]string, 0, len(a.Headers))
				for name, value := range a.Headers {
					names = append(names, name)
					if strings.Contains(value, "secret") {
						t.Errorf("%s: %s", name, value)
					}
				}
				slices.Sort(names)
				policies, _ := a.Body["violated-policies"].([]any)
				if len(policies) > 0 {
					t.Errorf("the body names %v", policies)
				}
				switch {
				case route == "/wide" && (a.Headers["X-RateLimit-Limit"] != "7" ||
					!strings.HasPrefix(a.Headers["X-RateLimit-Remaining"], "6")):
					t.Errorf("the figures are not those of the strictest shown: %v", a.Headers)
				case route == "/" && weight == "2" && !slices.Equal(names, []string{"Retry-After"}),
					route == "/" && weight != "2" && len(names) > 0:
					t.Errorf("weight %s: got %v", weight, a.Headers)
				}
			}
		}
	})
}

func TestDenial_BadInput(t *testing.T) {
	f := newFixture(t, nil)
	for member, field := range map[string]string{
		`"denial":{"status":500}`: "denial.status", `"denial":{"status":0}`: "denial.status", `"denial":402`: "denial",
		`"denial":{"retry":"soon"}`: "denial.retry", `"denial":{"again":1}`: "denial.again", `"hidden":1`: "hidden",
		`"hidden":true,"message":"x"`: "message",
	} {
		a := f.do(http.MethodPost, "/ratelimit/rules", `{"name":"r","scope":"user","limit":1,"window_ms":1000,`+member+`}`)
		if a.status != 422 || !slices.Equal(a.fields(), []string{field}) {
			t.Errorf("%s: %d %s", member, a.status, a.body)
		}
	}
}
