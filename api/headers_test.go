package api

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"

	"sluice/api/decide"
	"sluice/rules"
)

// item is one item of a RateLimit list as a client reads it.
type item struct {
	Name   string
	Params map[string]int64
}

func structured(t require, v string) []item {
	list, err := httpsfv.UnmarshalList([]string{v})
	if err != nil {
		t.Fatalf("%q: %v", v, err)
	}
	var out []item
	for _, m := range list {
		it := m.(httpsfv.Item)
		o := item{Name: it.Value.(string), Params: map[string]int64{}}
		for _, name := range it.Params.Names() {
			p, _ := it.Params.Get(name)
			if n, ok := p.(int64); ok {
				o.Params[name] = n
			}
		}
		out = append(out, o)
	}
	return out
}

// require is what testing.T and rapid.T share.
type require interface {
	Fatalf(format string, args ...any)
}

func TestHeaders_OfADenial(t *testing.T) {
	wide := perUser("wide", 100)
	wide.WindowMS = 90_500
	f := newFixture(t, []rules.Rule{perUser("narrow", 1), wide})
	f.check(`{"user":"42"}`)
	f.now.Add(100)
	h := f.check(`{"user":"42"}`).Headers
	want := []item{{"narrow", map[string]int64{"q": 1, "w": 1}}, {"wide", map[string]int64{"q": 100, "w": 91}}}
	if diff := cmp.Diff(want, structured(t, h["RateLimit-Policy"])); diff != "" {
		t.Errorf("RateLimit-Policy (-want +got):\n%s", diff)
	}
	remainders := structured(t, h["RateLimit"])
	if len(remainders) != 2 || remainders[0].Params["r"] != 0 || remainders[0].Params["t"] != 1 ||
		remainders[1].Params["r"] != 99 {
		t.Errorf("RateLimit %s", h["RateLimit"])
	}
	if h["Retry-After"] != "1" || h["X-RateLimit-Limit"] != "1" || h["X-RateLimit-Remaining"] != "0" {
		t.Errorf("headers %v", h)
	}
	if want := strconv.FormatInt(epoch/1000+1, 10); h["X-RateLimit-Reset"] != want {
		t.Errorf("X-RateLimit-Reset %s, want %s", h["X-RateLimit-Reset"], want)
	}
}

func TestHeaders_OfADenialAgreeOnWhenToComeBack(t *testing.T) {
	f := newFixture(t, nil)
	const body = `{"key":"k","limit":2,"window_ms":60000,"algorithm":"token_bucket"}`
	f.check(body)
	f.check(body)
	h := f.check(body).Headers
	if got := structured(t, h["RateLimit"]); h["Retry-After"] != "30" || got[0].Params["t"] != 30 {
		t.Errorf("Retry-After %s beside RateLimit %s, want 30 s in both", h["Retry-After"], h["RateLimit"])
	}
}

func TestHeaders_ResetAsDelta(t *testing.T) {
	f := newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) { d.ResetDelta = true })
	h := f.check(`{"key":"k","limit":1,"window_ms":90001,"algorithm":"fixed_window","align":"first_hit"}`).Headers
	if h["X-RateLimit-Reset"] != "91" || h["Retry-After"] != "" {
		t.Errorf("headers %v", h)
	}
	if got := structured(t, h["RateLimit"]); got[0].Name != "default" {
		t.Errorf("a direct limit is named %q", got[0].Name)
	}
}

func TestHeaders_ConcurrencyNamesItsUnit(t *testing.T) {
	h := newFixture(t, []rules.Rule{slots("slots", 3)}).check(`{"user":"42"}`).Headers
	if want := `"slots";q=3;qu="concurrent-requests";w=60`; h["RateLimit-Policy"] != want {
		t.Errorf("got %s, want %s", h["RateLimit-Policy"], want)
	}
}

func TestDenial_IsTheQuotaExceededProblem(t *testing.T) {
	trial := perUser("trial", 1)
	trial.Mode = "shadow"
	f := newFixture(t, []rules.Rule{perUser("narrow", 1), perUser("wide", 5), trial})
	f.check(`{"user":"42"}`)
	r := f.check(`{"user":"42"}`)
	want := map[string]any{
		"type":              "https://iana.org/assignments/http-problem-types#quota-exceeded",
		"title":             "Request cannot be satisfied as assigned quota has been exceeded",
		"status":            429.0,
		"detail":            "Please try again in 1 second.",
		"violated-policies": []any{"narrow"},
		"error":             "rate_limit_exceeded",
		"message":           "Too many requests. Please try again in 1 second.",
	}
	if diff := cmp.Diff(want, r.Body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if allowed := f.check(`{"user":"43"}`); allowed.Body != nil {
		t.Errorf("an allowed answer has a body: %v", allowed.Body)
	}
}

func TestHeaders_NameAFewLimitsAndAlwaysTheStrictest(t *testing.T) {
	const maxPolicies = 16 // as docs/http-checks.md says
	var rs []rules.Rule
	for i := range maxPolicies + 10 {
		rs = append(rs, perUser(fmt.Sprintf("wide-%d", i), 100))
	}
	rs = append(rs, perUser("narrow", 1))
	r := newFixture(t, rs).check(`{"user":"42"}`)
	for _, name := range []string{"RateLimit-Policy", "RateLimit"} {
		list, err := httpsfv.UnmarshalList([]string{r.Headers[name]})
		if err != nil || len(list) != maxPolicies {
			t.Errorf("%s has %d members, want %d (%v)", name, len(list), maxPolicies, err)
		}
		if !strings.Contains(r.Headers[name], `"narrow"`) {
			t.Errorf("%s does not name the strictest limit: %s", name, r.Headers[name])
		}
	}
	if len(r.Limits) != maxPolicies+11 {
		t.Errorf("the answer lists %d limits, want all %d", len(r.Limits), maxPolicies+11)
	}
}
