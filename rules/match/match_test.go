package match

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"sluice/rules"
	"sluice/rules/rulestest"
)

// What tests make rules of.
var (
	rule      = rulestest.Rule
	entryRule = rulestest.Entries
	genRule   = rulestest.Generate
)

func ptr[T any](v T) *T { return &v }

// noon is when tests that are not about time happen.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func compile(t testing.TB, rs ...rules.Rule) *Set {
	t.Helper()
	s, err := Compile(rs, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMatch_WorkedExample(t *testing.T) {
	s := compile(t, rule(7, func(r *rules.Rule) {
		r.Name, r.Route, r.Method = "charges-per-user", ptr("/v1/charges"), ptr("POST")
	}))
	d := Descriptor{Method: "POST", Route: "/v1/charges", User: "42"}
	ms := s.Match(&d, 1, noon, nil)
	if len(ms) != 1 || ms[0].Key != "{user:42}|7|sc" || ms[0].Display() != "user:42" || ms[0].Weight != 1 ||
		ms[0].Rule.Rule.Name != "charges-per-user" {
		t.Fatalf("got %+v", ms)
	}
	for _, d := range []Descriptor{
		{Method: "GET", Route: "/v1/charges", User: "42"},
		{Method: "POST", Route: "/v1/charges/9", User: "42"},
		{Method: "POST", Route: "/v1/charges", IP: netip.MustParseAddr("203.0.113.7")},
	} {
		if ms := s.Match(&d, 1, noon, nil); len(ms) != 0 {
			t.Errorf("%+v: got %+v, want none", d, ms)
		}
	}
}

func benchSet(b testing.TB, n, routes int) *Set {
	rs := make([]rules.Rule, n)
	scopes := []string{"user", "ip", "user+ip", "user+route", "apikey"}
	for i := range rs {
		rs[i] = rule(int64(i+1), func(r *rules.Rule) {
			r.Route = ptr(fmt.Sprintf("/v1/resource-%d/items", i%routes))
			r.Scope = scopes[i/routes%len(scopes)]
			if i/routes%2 == 1 {
				r.Method = ptr("POST")
			}
		})
	}
	s, err := Compile(rs, 1, Options{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkMatch: rules spread over routes, so that rules/routes of them apply.
func BenchmarkMatch(b *testing.B) {
	for _, n := range []struct{ rules, routes int }{{1000, 1000}, {10_000, 1000}, {10_000, 10_000}, {100_000, 100_000}} {
		b.Run(fmt.Sprintf("rules=%d/routes=%d", n.rules, n.routes), func(b *testing.B) {
			s := benchSet(b, n.rules, n.routes)
			d := Descriptor{Method: "POST", Route: "/v1/resource-7/items", User: "42", IP: netip.MustParseAddr("2001:db8::7")}
			var dst []Match
			b.ReportAllocs()
			for b.Loop() {
				dst = s.Match(&d, 1, noon, dst[:0])
			}
			b.ReportMetric(float64(len(dst)), "matches")
		})
	}
}
