package envoy

import (
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/profile"
)

// The host of a call of ext_authz is what Envoy says that the client asked for: never a header that the client sent
// beside it, nor the name by which Envoy calls this service. Calls by facts have it from their entries.
func TestCalls_AreForTheHostThatTheClientAskedFor(t *testing.T) {
	below := "*.shop.example"
	f := newFixture(t, byGRPC, nil)
	stored := shop()
	stored.Entries["authority"] = "host"
	set, err := match.CompileSource(rules.Source{Version: 2, Profiles: []profile.Profile{stored},
		Rules: perUser(0, func(r *rules.Rule) { r.Host = &below })}, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.sets.Store(set)
	for host, denied := range map[string]bool{
		"api.shop.example": true, "API.Shop.Example:8443": true, "a.b.shop.example.": true,
		"shop.example": false, "api.shop.example.org": false, "api_shop.example": false, "": false, "[::1": false,
	} {
		call := checkOf("shop", "GET", "/", "x-user", "42", ":authority", "x.shop.example", "host", "x.shop.example",
			"x-forwarded-host", "x.shop.example")
		call.Attributes.Request.Http.Host = host
		got, err := f.auth.Check(f.with(access.ScopeCheck), call)
		if err != nil || (got.GetDeniedResponse() != nil) != denied {
			t.Errorf("ext_authz for %q: %v, %v", host, got, err)
		}
		answer, err := f.call("api", descriptorOf("u", "42", "authority", host))
		if over := answer.GetOverallCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT; err != nil || over != denied {
			t.Errorf("RateLimitService for %q: %v, %v", host, answer, err)
		}
	}
}
