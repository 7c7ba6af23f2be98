package envoy

import (
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/profile"
)

// A pool that sheds denies a call by facts within its rule's limit: over the limit for the RateLimitService, 503 for
// the client of ext_authz.
func TestCalls_APoolSheds(t *testing.T) { bothWays(t, callsAPoolSheds) }

func callsAPoolSheds(t *testing.T, by way) {
	f := newFixture(t, by, nil)
	pool, low := rules.NewPool(), "low"
	pool.Name, pool.Limit, pool.WindowMS, pool.LowPercent, pool.Shed = "shop", 2, 60_000, 50, true
	r := perUser(100)[0]
	r.Pool, r.Priority = &pool.Name, &low
	set, err := match.CompileSource(rules.Source{Version: 2, Pools: []rules.Pool{pool},
		Profiles: []profile.Profile{shop()},
		Rules:    []rules.Rule{r}}, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.sets.Store(set)
	if got, err := f.call("api", descriptorOf("u", "42")); err != nil ||
		got.GetOverallCode() != ratelimitv3.RateLimitResponse_OK {
		t.Fatalf("got %v, %v", got, err)
	}
	got, err := f.call("api", descriptorOf("u", "43"))
	if err != nil || got.GetOverallCode() != ratelimitv3.RateLimitResponse_OVER_LIMIT ||
		!strings.Contains(string(got.GetRawBody()), "temporary-reduced-capacity") {
		t.Errorf("got %v, %v", got, err)
	}
	checked, err := f.check("shop", "GET", "/", "x-user", "44")
	if denied := checked.GetDeniedResponse(); err != nil || denied.GetStatus().GetCode() != 503 ||
		!strings.Contains(denied.GetBody(), "temporary-reduced-capacity") {
		t.Errorf("got %v, %v", checked, err)
	}
}
