package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/rules"
)

func messaged(name string, limit int64, message string) rules.Rule {
	r := aMinute(name, limit)
	r.Message = &message
	return r
}

func TestMessage_ReplacesThatOfADenial(t *testing.T) {
	r := messaged("r", 1, "{limit} per {window} for {key} on {route}: <wait> {retry_after}s \"{{")
	onBothStores(t, nil, []rules.Rule{r, aMinute("other", 5)}, func(t *testing.T, f *fixture) {
		const body = `{"user":"42","route":"/v1/charges?card=4111"}`
		if a := f.check(body); !a.Allowed || a.Body != nil {
			t.Fatalf("got %+v", a)
		}
		denied := f.check(body)
		got, _ := denied.Body["message"].(string)
		if denied.Allowed || !strings.HasPrefix(got, "1 per minute for user:42 on /v1/charges") ||
			!strings.HasSuffix(got, `: <wait> 60s "{`) || strings.Contains(got, "4111") {
			t.Errorf("got %q", got)
		}
		if got := f.check(`{"user":"sk_live_0123456789abcdef","weight":2,"route":"/a"}`); got.Allowed ||
			got.Body["message"] != "Too many requests. Waiting does not help." {
			t.Errorf("where waiting does not help: %q", got.Body["message"])
		}
	})
}

func TestMessage_NamesThePeriodOfACalendar(t *testing.T) {
	var list []rules.Rule
	for _, every := range []string{rules.EveryDay, rules.EveryWeek, rules.EveryMonth} {
		r := messaged(every, 1, "one a {window}")
		r.Route, r.Algorithm, r.WindowMS = new("/"+every), "fixed_window", 0
		r.Calendar = &rules.Calendar{Every: every, Zone: "Europe/Berlin"}
		list = append(list, r)
	}
	onBothStores(t, nil, list, func(t *testing.T, f *fixture) {
		for _, r := range list {
			body := `{"user":"42","route":"` + *r.Route + `"}`
			f.check(body)
			if a := f.check(body); a.Allowed || a.Body["message"] != "one a "+r.Name {
				t.Errorf("%s: got %+v", r.Name, a)
			}
		}
	})
}

func TestMessage_HasNoCredentials(t *testing.T) {
	f := newFixture(t, []rules.Rule{messaged("r", 0, "no more for {key} on {route}")})
	a := f.check(`{"user":"sk_live_0123456789abcdef","route":"/files/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0MiJ9.c2lnbmF0dXJl"}`)
	got, _ := a.Body["message"].(string)
	if !strings.HasPrefix(got, "no more for user:") || strings.Contains(got, "sk_live_0123456789abcdef") ||
		strings.Contains(got, "c2lnbmF0dXJl") {
		t.Errorf("got %q", got)
	}
}

func TestMessage_IsBoundedWithItsValues(t *testing.T) {
	f := newFixture(t, []rules.Rule{messaged("r", 0, strings.Repeat("{route}", 42))})
	for length, own := range map[int]bool{90: true, 1000: false} {
		a := f.check(`{"user":"42","route":"/` + strings.Repeat("x", length-1) + `"}`)
		if got, _ := a.Body["message"].(string); strings.HasPrefix(got, "/xxx") != own {
			t.Errorf("route of %d bytes: got %d bytes, %.40q", length, len(got), got)
		}
	}
}

func TestMessage_IsNotThatOfAFailMode(t *testing.T) {
	r := messaged("r", 5, "own")
	r.FailMode = rules.FailClosed
	f := newFixture(t, []rules.Rule{r})
	f.store.fail(errAway)
	if a := f.check(`{"user":"42"}`); a.Status != 503 || a.Body["message"] == "own" {
		t.Errorf("got %+v", a)
	}
}

func TestMessage_BadInput(t *testing.T) {
	f := newFixture(t, nil)
	for message, status := range map[string]int{
		`"{user}"`: 422, `7`: 422, `"` + strings.Repeat("x", 301) + `"`: 422, `"{"`: 422, `"a\u0000"`: 422, `null`: 201, `"Wait {retry_after}s"`: 201} {
		a := f.do(http.MethodPost, "/ratelimit/rules",
			`{"name":"r","scope":"user","limit":1,"window_ms":1000,"message":`+message+`}`)
		if a.status != status || status == 422 && !slices.Equal(a.fields(), []string{"message"}) {
			t.Errorf("%s: %d %s", message, a.status, a.body)
		}
		if a.status == 201 {
			f.do(http.MethodDelete, a.header.Get("Location"), "").want(204)
		}
	}
}
