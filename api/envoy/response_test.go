package envoy

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// limitAnswer is an answer of a limit of 5 per window.
func limitAnswer(name string, window int64, d limiter.Decision) decide.LimitAnswer {
	d.SetRoom(d.Remaining)
	return decide.LimitAnswer{Rule: name, Known: true, Decision: d,
		Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: d.Limit, Window: window}}
}

type (
	limit            = ratelimitv3.RateLimitResponse_RateLimit
	descriptorStatus = ratelimitv3.RateLimitResponse_DescriptorStatus
)

const (
	ok   = ratelimitv3.RateLimitResponse_OK
	over = ratelimitv3.RateLimitResponse_OVER_LIMIT
)

func TestStatus_SaysWhatBecameOfADescriptor(t *testing.T) {
	known := limitAnswer("r", 60_000, limiter.Decision{Allowed: true, Limit: 5, Remaining: 3, Reset: 41_200})
	denied := limitAnswer("r", 60_000, limiter.Decision{Limit: 5, RetryAfter: 11_800, Reset: 41_200})
	edit := func(la decide.LimitAnswer, change func(*decide.LimitAnswer)) *decide.LimitAnswer {
		change(&la)
		return &la
	}
	perMinute := &limit{Name: "r", RequestsPerUnit: 5, Unit: ratelimitv3.RateLimitResponse_RateLimit_MINUTE}
	for _, tt := range []struct {
		name      string
		la        *decide.LimitAnswer
		over      bool
		remaining int64
		want      *descriptorStatus
	}{
		{"no rule", nil, false, 0, &descriptorStatus{Code: ok}},
		{"unlimited", nil, false, math.MaxUint32, &descriptorStatus{Code: ok, LimitRemaining: math.MaxUint32}},
		{"allowed", &known, false, 3, &descriptorStatus{Code: ok, CurrentLimit: perMinute, LimitRemaining: 3,
			DurationUntilReset: &durationpb.Duration{Seconds: 42}}},
		{"denied", &denied, true, 0, &descriptorStatus{Code: over, CurrentLimit: perMinute,
			DurationUntilReset: &durationpb.Duration{Seconds: 12}}},
		{"shadow above its limit", &denied, false, 0, &descriptorStatus{Code: ok, CurrentLimit: perMinute,
			DurationUntilReset: &durationpb.Duration{Seconds: 42}}},
		{"waiting never helps", edit(denied, func(la *decide.LimitAnswer) { la.Decision.RetryAfter = limiter.Never }),
			true, 0, &descriptorStatus{Code: over, CurrentLimit: perMinute}},
		{"a report that did not fit", edit(known, func(*decide.LimitAnswer) {}), true, 0, &descriptorStatus{Code: over,
			CurrentLimit: perMinute, DurationUntilReset: &durationpb.Duration{Seconds: 42}}},
		{"no figures and denied", edit(denied, func(la *decide.LimitAnswer) {
			la.Known, la.Decision = false, limiter.Decision{Limit: 5}
		}), true, 0, &descriptorStatus{Code: over, CurrentLimit: perMinute,
			DurationUntilReset: &durationpb.Duration{Seconds: 1}}},
		{"no figures and allowed", edit(known, func(la *decide.LimitAnswer) {
			la.Known, la.Decision = false, limiter.Decision{Allowed: true, Limit: 5}
		}), false, 0, &descriptorStatus{Code: ok, CurrentLimit: perMinute}},
		{"several units", edit(known, func(la *decide.LimitAnswer) { la.Limit.Window = 600_000 }), false, 3,
			&descriptorStatus{Code: ok, LimitRemaining: 3, DurationUntilReset: &durationpb.Duration{Seconds: 42},
				CurrentLimit: &limit{Name: "r", RequestsPerUnit: 5, Unit: ratelimitv3.RateLimitResponse_RateLimit_MINUTE,
					UnitMultiplier: wrapperspb.UInt32(10)}}},
		{"a calendar month, of any length", edit(known, func(la *decide.LimitAnswer) {
			la.Limit.Window, la.Period = 743*3_600_000, (&rules.Calendar{Every: rules.EveryMonth}).Period()
		}), false, 3, &descriptorStatus{Code: ok, LimitRemaining: 3, DurationUntilReset: &durationpb.Duration{Seconds: 42},
			CurrentLimit: &limit{Name: "r", RequestsPerUnit: 5, Unit: ratelimitv3.RateLimitResponse_RateLimit_MONTH}}},
		{"no unit", edit(known, func(la *decide.LimitAnswer) { la.Limit.Window = 1500 }), false, 3,
			&descriptorStatus{Code: ok, LimitRemaining: 3, DurationUntilReset: &durationpb.Duration{Seconds: 42},
				CurrentLimit: &limit{Name: "r", RequestsPerUnit: 5}}},
		{"slots", edit(known, func(la *decide.LimitAnswer) { la.Limit.Algorithm = limiter.Concurrency }), false, 3,
			&descriptorStatus{Code: ok, LimitRemaining: 3, DurationUntilReset: &durationpb.Duration{Seconds: 42},
				CurrentLimit: &limit{Name: "r", RequestsPerUnit: 5}}},
		{"bucket", edit(known, func(la *decide.LimitAnswer) {
			la.Limit.Algorithm, la.Decision.Rate, la.Decision.Limit = limiter.TokenBucket, 5, 20
		}), false, 3, &descriptorStatus{Code: ok, CurrentLimit: perMinute, LimitRemaining: 3,
			DurationUntilReset: &durationpb.Duration{Seconds: 42}}},
		{"large figures", edit(known, func(la *decide.LimitAnswer) { la.Decision.Limit = limiter.MaxExact }), false,
			limiter.MaxExact, &descriptorStatus{Code: ok, LimitRemaining: math.MaxUint32,
				DurationUntilReset: &durationpb.Duration{Seconds: 42}, CurrentLimit: &limit{Name: "r",
					RequestsPerUnit: math.MaxUint32, Unit: ratelimitv3.RateLimitResponse_RateLimit_MINUTE}}},
		{"a limit that came with the call", edit(known, func(la *decide.LimitAnswer) { la.Rule = "" }), false, 3,
			&descriptorStatus{Code: ok, LimitRemaining: 3, DurationUntilReset: &durationpb.Duration{Seconds: 42},
				CurrentLimit: &limit{RequestsPerUnit: 5, Unit: ratelimitv3.RateLimitResponse_RateLimit_MINUTE}}},
	} {
		a := decide.Answer{Verdict: decide.Allowed, Strictest: -1}
		if tt.over {
			a.Verdict = decide.Denied
		}
		var o response
		o.begin()
		o.status(&a, tt.la, tt.la, tt.over, tt.remaining)
		got := &ratelimitv3.RateLimitResponse{}
		if err := proto.Unmarshal(o.b, got); err != nil || len(got.GetStatuses()) != 1 {
			t.Fatalf("%s: %v, %v", tt.name, got, err)
		}
		if diff := cmp.Diff(tt.want, got.GetStatuses()[0], protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// restOf writes headers, body and metadata of an answer as the RateLimitService does.
func restOf(t *testing.T, a *decide.Answer, statuses ...decide.DescriptorStatus) *ratelimitv3.RateLimitResponse {
	t.Helper()
	s := &Server{deps: Deps{Observe: nopObserver{}, LimitHeaders: true}}
	x := newBuffers()
	x.call, x.a.Answer, x.out.shows = &ratelimitv3.RateLimitRequest{Domain: "shop"}, *a, allHeaders
	x.out.begin()
	s.rest(x, true, statuses)
	m := &ratelimitv3.RateLimitResponse{}
	if err := proto.Unmarshal(x.out.b, m); err != nil {
		t.Fatal(err)
	}
	return m
}

func headersIn(list []*corev3.HeaderValue) map[string]string {
	all := map[string]string{}
	for _, h := range list {
		all[h.GetKey()] = h.GetValue()
	}
	return all
}

func TestRest_HasHeadersBodyAndMetadata(t *testing.T) {
	a := &decide.Answer{Op: limiter.OpTake, Verdict: decide.Denied, At: epoch, Degraded: rules.FailLocal}
	a.Limits = []decide.LimitAnswer{
		limitAnswer("per-user", 60_000, limiter.Decision{Limit: 5, RetryAfter: 20_000, Reset: 20_000}),
		limitAnswer("per-path", 60_000, limiter.Decision{Allowed: true, Limit: 50, Remaining: 49, Reset: 20_000}),
		limitAnswer("per-ip", 60_000, limiter.Decision{Limit: 1, RetryAfter: 10_000, Reset: 20_000}),
		limitAnswer("trial", 60_000, limiter.Decision{Limit: 2, RetryAfter: 20_000, Reset: 20_000}),
	}
	a.Limits[3].Shadow, a.Limits[1].Degraded, a.Limits[1].ConditionFailed = true, rules.FailLocal, true
	per := func(over bool, metadata map[string]string) decide.DescriptorStatus {
		return decide.DescriptorStatus{State: decide.StateLimited, Over: over,
			Rule: &match.Compiled{Rule: rules.Rule{Metadata: metadata}}}
	}
	full, replaced := per(false, map[string]string{"team": "full"}), per(false, map[string]string{"team": "replaced"})
	full.Full, replaced.State = true, decide.StateReplaced
	got := restOf(t, a, per(true, map[string]string{"team": "denied"}), full,
		per(false, map[string]string{"team": "pay", "x": ""}), replaced, decide.DescriptorStatus{})
	want := map[string]string{}
	reply.HeaderStyle{}.Headers(a, nil, func(name string, value []byte) { want[name] = string(value) })
	want["RateLimit-Limit"], want["RateLimit-Remaining"], want["RateLimit-Reset"] = "5", "0", "20"
	want["Content-Type"] = "application/problem+json"
	if diff := cmp.Diff(want, headersIn(got.GetResponseHeadersToAdd())); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if len(got.GetRequestHeadersToAdd()) != 0 || got.GetQuota() != nil {
		t.Error("headers for the request, or a quota")
	}
	var problem struct{ Status int }
	if err := json.Unmarshal(got.GetRawBody(), &problem); err != nil || problem.Status != 429 {
		t.Errorf("body %s: %v", got.GetRawBody(), err)
	}
	one := func(rule, mode string, allowed bool, limit, remaining, retry int) map[string]any {
		return map[string]any{"rule": rule, "mode": mode, "allowed": allowed, "limit": limit, "remaining": remaining,
			"used": limit - remaining, "reset_ms": 20_000, "retry_after_ms": retry}
	}
	second := one("per-path", "enforce", true, 50, 49, 0)
	second["degraded"], second["condition_failed"] = "local", true
	metadata, err := structpb.NewStruct(map[string]any{"domain": "shop", "rule": "per-user",
		"denied_by": "per-user,per-ip", "shadow": "trial", "degraded": "local",
		"metadata": map[string]any{"team": "pay", "x": ""}, "limits": []any{
			one("per-user", "enforce", false, 5, 0, 20_000), second, one("per-ip", "enforce", false, 1, 0, 10_000),
			one("trial", "shadow", false, 2, 0, 20_000)}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(metadata, got.GetDynamicMetadata(), protocmp.Transform()); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestRest_OfAClosedFailModeIsTheBodyOf503(t *testing.T) {
	a := &decide.Answer{Op: limiter.OpTake, Verdict: decide.Unavailable, Strictest: -1, Degraded: rules.FailClosed,
		Limits: []decide.LimitAnswer{{Rule: "per-user", Degraded: rules.FailClosed}}}
	got := restOf(t, a)
	if !strings.Contains(string(got.GetRawBody()), `"status":503`) {
		t.Errorf("body %s", got.GetRawBody())
	}
	if after := headersIn(got.GetResponseHeadersToAdd())["Retry-After"]; after != "1" {
		t.Errorf("Retry-After %q", after)
	}
	fields := got.GetDynamicMetadata().GetFields()
	if fields["denied_by"].GetStringValue() != "per-user" || fields["degraded"].GetStringValue() != "closed" {
		t.Errorf("metadata %v", fields)
	}
}

func TestRest_OfAnAllowedCallHasNoBody(t *testing.T) {
	a := &decide.Answer{Op: limiter.OpTake, Verdict: decide.Allowed, At: epoch, Limits: []decide.LimitAnswer{
		limitAnswer("per-user", 60_000, limiter.Decision{Allowed: true, Limit: 5, Remaining: 4, Reset: 20_000})}}
	got := restOf(t, a)
	fields := got.GetDynamicMetadata().GetFields()
	if len(got.GetRawBody()) != 0 || fields["denied_by"] != nil || fields["rule"].GetStringValue() != "per-user" {
		t.Errorf("got %v", got)
	}
	if headersIn(got.GetResponseHeadersToAdd())["X-RateLimit-Remaining"] != "4" {
		t.Errorf("headers %v", got.GetResponseHeadersToAdd())
	}
}
