package envoy

import (
	"encoding/json"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"

	"sluice/rules"
	"sluice/rules/rulestest"
)

func TestCheck_SendsTheStatusOfTheRule(t *testing.T) {
	f := newFixture(t, byLoop, perUser(0, func(r *rules.Rule) { r.Denial = &rules.Denial{Status: 402} }))
	a, err := f.check("shop", "GET", "/", "x-user", "42")
	if err != nil || a.GetDeniedResponse().GetStatus().GetCode() != 402 ||
		codes.Code(a.GetStatus().GetCode()) != codes.ResourceExhausted { //nolint:gosec // a code
		t.Errorf("got %v, %v", a, err)
	}
}

// Envoy makes headers of the limits in statuses.
func TestStatuses_HaveNoFiguresOfHiddenRules(t *testing.T) {
	list := perUser(1, func(r *rules.Rule) { r.Hidden = true })
	list = append(list, perUser(5, func(r *rules.Rule) { r.ID, r.Name = 2, "shown" })...)
	list = append(list, rulestest.Entries(3, "own:user", func(r *rules.Rule) { r.Hidden, r.Limit = true, 1 }))
	f := newFixture(t, byLoop, list, func(d *Deps) { d.LimitHeaders = true })
	for _, over := range []bool{false, true} {
		a, err := f.call("api", descriptorOf("u", "42"))
		if err != nil || (a.GetOverallCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT) != over {
			t.Fatalf("got %v, %v", a, err)
		}
		st := a.GetStatuses()[0]
		if st.GetCurrentLimit().GetName() != "shown" || st.GetLimitRemaining() != 4 ||
			st.GetDurationUntilReset().GetSeconds() != 60 {
			t.Errorf("over %t: status %v", over, st)
		}
		for _, h := range a.GetResponseHeadersToAdd() {
			if strings.Contains(h.GetValue(), "per-user") || h.GetKey() == "RateLimit-Limit" && h.GetValue() != "5" {
				t.Errorf("over %t: header %v", over, h)
			}
		}
		if a, err = f.call("own", descriptorOf("user", "42")); err != nil {
			t.Fatal(err)
		}
		if st = a.GetStatuses()[0]; st.GetCurrentLimit() != nil || st.GetLimitRemaining() != 0 ||
			(st.GetDurationUntilReset() != nil) != over {
			t.Errorf("over %t: status %v of a descriptor's own rule", over, st)
		}
	}
}

// A profile that sends no names of limits in headers sends none in the body.
func TestDenial_HasNamesOnlyIfTheHeadersDo(t *testing.T) {
	for _, headers := range [][]string{{"Retry-After"}, {"RateLimit-Policy"}, {"RateLimit"}} {
		f := newFixture(t, byLoop, nil)
		p := shop()
		p.Version, p.Headers = 2, headers
		f.load(2, perUser(0), p)
		authorized, err := f.check("shop", "GET", "/", "x-user", "42")
		if err != nil {
			t.Fatal(err)
		}
		limited, err := f.call("api", descriptorOf("u", "42"))
		if err != nil {
			t.Fatal(err)
		}
		for what, body := range map[string]string{
			"ext_authz": authorized.GetDeniedResponse().GetBody(), "rate limit": string(limited.GetRawBody()),
		} {
			if !json.Valid([]byte(body)) ||
				strings.Contains(body, `"violated-policies":["per-user"]`) != (headers[0] != "Retry-After") ||
				strings.Contains(body, "per-user") != (headers[0] != "Retry-After") {
				t.Errorf("%s with %q: body %s", what, headers, body)
			}
		}
	}
}
