package envoy

import (
	"context"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"sluice/internal/access"
	"sluice/limiter"
	"sluice/rules"
)

// A node without a turn for a call denies it, also where fail modes let pass: an error would open Envoy's door.
func TestCalls_AnOverloadDenies(t *testing.T) { bothWays(t, callsAnOverloadDenies) }

func callsAnOverloadDenies(t *testing.T, by way) {
	f := newFixture(t, by, perUser(100, func(r *rules.Rule) { r.FailMode = rules.FailOpen }))
	f.store.fault = func(context.Context) error { return &limiter.StoreError{Cause: limiter.CauseOverload} }
	got, err := f.call("api", descriptorOf("u", "43"))
	if err != nil || got.GetOverallCode() != ratelimitv3.RateLimitResponse_OVER_LIMIT ||
		!strings.Contains(string(got.GetRawBody()), "temporary-reduced-capacity") ||
		!got.GetDynamicMetadata().GetFields()["overloaded"].GetBoolValue() {
		t.Errorf("got %v, %v", got, err)
	}
	checked, err := f.check("shop", "GET", "/", "x-user", "44")
	denied := checked.GetDeniedResponse()
	if err != nil || denied.GetStatus().GetCode() != 503 ||
		!strings.Contains(denied.GetBody(), "temporary-reduced-capacity") ||
		optionsIn(denied.GetHeaders())["Retry-After"] != "1" || optionsIn(denied.GetHeaders())["X-RateLimit-Mode"] != "" {
		t.Errorf("got %v, %v", checked, err)
	}
}

// The deadline of a call is its caller's, and without one the longest call of this server is not.
func TestCalls_TheirDeadlineSaysHowLongTheCallerWaits(t *testing.T) {
	bothWays(t, callsTheirDeadlineSaysHowLongTheCallerWaits)
}

func callsTheirDeadlineSaysHowLongTheCallerWaits(t *testing.T, by way) {
	f := newFixture(t, by, perUser(100))
	bounds := make(chan limiter.Bound, 1)
	f.store.fault = func(ctx context.Context) error {
		if b, ok := ctx.(limiter.Bounded); ok {
			bounds <- b.Bound()
		}
		return gone(ctx)
	}
	ask := func(ctx context.Context) limiter.Bound {
		t.Helper()
		if _, err := f.auth.Check(ctx, checkOf("shop", "GET", "/", "x-user", "42")); err != nil {
			t.Fatal(err)
		}
		return <-bounds
	}
	if b := ask(f.with(access.ScopeCheck)); b.Turn.Sub(b.Start) > 80*time.Millisecond {
		t.Errorf("without a deadline: the turn is after %s", b.Turn.Sub(b.Start))
	}
	ctx, cancel := context.WithTimeout(f.with(access.ScopeCheck), time.Minute)
	defer cancel()
	if b := ask(ctx); b.Turn.Sub(b.Start) != 800*time.Millisecond || b.Hard.IsZero() {
		t.Errorf("with a minute: %+v", b)
	}
}
