package match

import (
	"strings"
	"testing"

	"sluice/rules"
)

// FuzzMatchHostile: no descriptor makes Match panic or a key grow without bound.
func FuzzMatchHostile(f *testing.F) {
	f.Add("GET", "/v1/charges", "42", "k", "free", "acme")
	f.Add("\x00", "%%%2e/../..", "{}|+", "", "\xff", strings.Repeat("é", 100))
	f.Add("get", "*", "eyJ..", "Bearer ", "sk_", "%h")
	s := compile(f,
		rule(1, func(r *rules.Rule) { r.Scope = "user+apikey+tier+route+method+attr:t" }),
		rule(2, func(r *rules.Rule) { r.Scope, r.Route = "global", ptr("/{a}/*") }),
		rule(3, func(r *rules.Rule) { r.Scope, r.Route, r.Method = "route", ptr("/*"), ptr("GET") }),
	)
	f.Fuzz(func(t *testing.T, method, route, user, key, tier, attr string) {
		d := Descriptor{Method: method, Route: route, User: user, APIKey: key, Tier: tier,
			Attributes: map[string]string{"t": attr}}
		for _, m := range s.Match(&d, 1, noon, nil) {
			if len(m.Key) > 800 || strings.Count(string(m.Key), "{") != 1 || strings.Count(string(m.Key), "}") != 1 {
				t.Fatalf("key %q", m.Key)
			}
		}
		if got := len(s.Explain(&d, 1, noon)); got != 3 {
			t.Fatalf("explained %d rules", got)
		}
	})
}
