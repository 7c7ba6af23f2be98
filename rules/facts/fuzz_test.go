package facts

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"sluice/limiter"
	"sluice/rules/match"
	"sluice/rules/profile"
)

// FuzzRead: whatever a client sends, the facts are ones that the engine takes, the route that rules
// see does not depend on query and fragment, and reading again gives the same.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"/users/17", "//x/../%2e", "/a;b/c", "http://h/x", "*", "\xff%ff", "[::1]:1, unknown",
		"uid=\"1\"; uid", "Bearer " + "e30.eyJzdWIiOjF9.x", "99999999999999999999", "%h", ".."} {
		f.Add(s, s, s, s, s)
	}
	p := shop()
	p.Weight = &profile.WeightSource{Header: "X-Weight"}
	r := reader(f, p)
	f.Fuzz(func(t *testing.T, target, host, user, cookies, addresses string) {
		req := Request{Method: user, Target: target, Host: host, Header: map[string][]string{
			"X-User": {user}, "X-Api-Key": {cookies}, "X-Tenant": {addresses}, "Cookie": {cookies, user},
			"Authorization": {user}, "Content-Length": {addresses}, "X-Weight": {cookies},
			"X-Forwarded-For": {addresses, user}}}
		var out, again Facts
		err := r.Read(&req, &out)
		d := &out.Descriptor
		for _, v := range []string{d.Method, d.User, d.APIKey, d.Tier, d.Attributes["tenant"], d.Attributes["host"]} {
			if len(v) > match.MaxText || !utf8.ValidString(v) {
				t.Fatalf("got %q", v)
			}
		}
		if len(d.Route) > match.MaxText || !utf8.ValidString(d.Route) || strings.ContainsAny(d.Route, "?#") {
			t.Fatalf("%q has the route %q", target, d.Route)
		}
		inRange := func(n int64) bool { return n >= 0 && n <= limiter.MaxExact }
		if !inRange(d.Fields["bytes"]) || err == nil && !inRange(out.Weight) {
			t.Fatalf("got %+v", out)
		}
		if d.IP.IsValid() && (d.IP.Zone() != "" || d.IP.Is4In6()) {
			t.Fatalf("got the address %s", d.IP)
		}
		req.Target, _, _ = strings.Cut(target, "?")
		req.Target += "?x=1"
		if _ = r.Read(&req, &again); again.Descriptor.Route != d.Route && target != "" {
			t.Fatalf("%q: the query changed the route from %q to %q", target, d.Route, again.Descriptor.Route)
		}
	})
}

// FuzzClaim: a path into any token ends, with a claim that is JSON or with none.
func FuzzClaim(f *testing.F) {
	for _, payload := range []string{`{"a":[{"b":1}]}`, `{"a":null}`, `{"":{"":[]}}`, strings.Repeat(`{"a":[`, 2000)} {
		for _, path := range []string{"a[0].b", ".", "[", "a[", "a[]", "a[-1]", "a[99999999999999999999]", "a].b",
			strings.Repeat("a[0].", 60)} {
			f.Add(payload, path)
		}
	}
	f.Fuzz(func(t *testing.T, payload, path string) {
		if got := claim(decodeClaims(token("{}", payload)), path); got != nil && !json.Valid(got) {
			t.Fatalf("%q of %q is %q", path, payload, got)
		}
		_ = claimText(claim(decodeClaims(payload), path))
	})
}
