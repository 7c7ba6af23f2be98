package envoy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"sluice/api/reply"
	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/profile"
)

func TestCalls_NeedATokenWithTheScopeCheck(t *testing.T) {
	bothWays(t, callsNeedATokenWithTheScopeCheck)
}

func callsNeedATokenWithTheScopeCheck(t *testing.T, by way) {
	f := newFixture(t, by, perUser(5))
	revoked := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+f.secrets[access.ScopeCheck])
	for _, tt := range []struct {
		name     string
		metadata []string
		want     codes.Code
		reason   string
	}{
		{"authorization", []string{"authorization", "Bearer " + f.secrets[access.ScopeCheck]}, codes.OK, ""},
		{"sluice-token", []string{"sluice-token", f.secrets[access.ScopeCheck]}, codes.OK, ""},
		{"nothing", nil, codes.Unauthenticated, "none"},
		{"an unknown token", []string{"authorization", "Bearer slk_x"}, codes.Unauthenticated, "unknown"},
		{"an unknown sluice-token", []string{"sluice-token", "slk_x"}, codes.Unauthenticated, "unknown"},
		{"two tokens", []string{"sluice-token", "a", "sluice-token", "b"}, codes.Unauthenticated, "unknown"},
		{"another scheme", []string{"authorization", "Basic eDp5"}, codes.Unauthenticated, "unknown"},
		{"another scope", []string{"authorization", "Bearer " + f.secrets[access.ScopeRulesRead]}, codes.PermissionDenied,
			"scope"},
		{"another scope as sluice-token", []string{"sluice-token", f.secrets[access.ScopeRulesRead]},
			codes.PermissionDenied, "scope"},
	} {
		authorized, limited := f.counted("envoy_ext_authz", tt.reason), f.counted("envoy_ratelimit", tt.reason)
		ctx := metadata.AppendToOutgoingContext(t.Context(), tt.metadata...)
		_, err := f.auth.Check(ctx, checkOf("shop", "GET", "/", "x-user", "42"))
		f.wantCode(tt.name, err, tt.want)
		_, err = f.limits.ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{Domain: "api",
			Descriptors: []*commonv3.RateLimitDescriptor{descriptorOf("a", "b")}})
		f.wantCode(tt.name, err, tt.want)
		authorized = f.counted("envoy_ext_authz", tt.reason) - authorized
		limited = f.counted("envoy_ratelimit", tt.reason) - limited
		if tt.reason != "" && (authorized != 1 || limited != 1) {
			t.Errorf("%s: %s counted %d and %d times, want once each", tt.name, tt.reason, authorized, limited)
		}
	}
	f.tokens(nil) // others
	_, err := f.auth.Check(revoked, checkOf("shop", "GET", "/"))
	f.wantCode("a token that is gone", err, codes.Unauthenticated)
	f.keys.Store(nil)
	_, err = f.check("shop", "GET", "/")
	f.wantCode("tokens not loaded", err, codes.Unavailable)
}

func TestCalls_InOpenModeOnlyRateLimitsNeedNoTokenUntilOneExists(t *testing.T) {
	bothWays(t, callsInOpenModeOnlyRateLimitsNeedNoTokenUntilOneExists)
}

func callsInOpenModeOnlyRateLimitsNeedNoTokenUntilOneExists(t *testing.T, by way) {
	f := newFixture(t, by, perUser(5), func(d *Deps) { d.OpenMode = true })
	local, hash := access.NewSecret()
	f.keys.Store(access.NewKeyring(nil).WithLocal(hash))
	one := &ratelimitv3.RateLimitRequest{Domain: "api",
		Descriptors: []*commonv3.RateLimitDescriptor{descriptorOf("a", "b")}}
	for _, tt := range []struct {
		authority string
		metadata  []string
		limits    codes.Code
		others    codes.Code
	}{
		{"localhost", nil, codes.OK, codes.Unauthenticated},
		{"127.0.0.1:8081", []string{"x-request-id", "1"}, codes.OK, codes.Unauthenticated},
		{"ratelimit_cluster", nil, codes.PermissionDenied, codes.Unauthenticated}, // as Envoy sends it
		{"localhost", []string{"x-forwarded-for", "203.0.113.7"}, codes.PermissionDenied, codes.Unauthenticated},
		{"localhost", []string{"x-forwarded-host", "a.example"}, codes.PermissionDenied, codes.Unauthenticated},
		{"localhost", []string{"x-real-ip", "203.0.113.7"}, codes.PermissionDenied, codes.Unauthenticated},
		{"localhost", []string{"forwarded", "for=203.0.113.7"}, codes.PermissionDenied, codes.Unauthenticated},
		{"localhost", []string{"via", "2 proxy"}, codes.PermissionDenied, codes.Unauthenticated},
		{"localhost", []string{"origin", "https://evil.example"}, codes.PermissionDenied, codes.Unauthenticated},
		{"localhost", []string{"sec-fetch-site", "cross-site"}, codes.PermissionDenied, codes.Unauthenticated},
		{"localhost", []string{"authorization", "Bearer slk_x"}, codes.Unauthenticated, codes.Unauthenticated},
		{"ratelimit_cluster", []string{"sluice-token", local}, codes.OK, codes.OK},
		{"ratelimit_cluster", []string{"authorization", "Bearer " + local, "via", "2 proxy"}, codes.OK, codes.OK},
	} {
		name := fmt.Sprint(tt.authority, " ", len(tt.metadata), tt.metadata[:min(1, len(tt.metadata))])
		conn, err := grpc.NewClient(f.conn.Target(), grpc.WithAuthority(tt.authority),
			grpc.WithTransportCredentials(insecureCredentials))
		if err != nil {
			t.Fatal(err)
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), tt.metadata...)
		_, err = ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, one)
		f.wantCode(name, err, tt.limits)
		_, err = authv3.NewAuthorizationClient(conn).Check(ctx, checkOf("shop", "GET", "/", "x-user", "42"))
		f.wantCode(name+", ext_authz", err, tt.others)
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	f.tokens(nil)
	_, err := f.limits.ShouldRateLimit(t.Context(), one)
	f.wantCode("a token exists", err, codes.Unauthenticated)
	_, err = f.limits.ShouldRateLimit(metadata.AppendToOutgoingContext(t.Context(), "sluice-token", local), one)
	f.wantCode("the local token, a token exists", err, codes.Unauthenticated)
}

// Every method that the server has needs a credential in open mode, but for these.
func TestCalls_InOpenModeEveryOtherMethodNeedsACredential(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		f := newFixture(t, by, perUser(5), func(d *Deps) { d.OpenMode = true })
		f.keys.Store(access.NewKeyring(nil))
		public := []string{ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName,
			grpc_health_v1.Health_Check_FullMethodName, grpc_health_v1.Health_Watch_FullMethodName,
			grpc_health_v1.Health_List_FullMethodName}
		tried := 0
		for service, info := range f.server.grpc().GetServiceInfo() {
			for _, m := range info.Methods {
				name := "/" + service + "/" + m.Name
				if slices.Contains(public, name) {
					continue
				}
				tried++
				err := f.conn.Invoke(t.Context(), name, "", new(string), grpc.ForceCodecV2(textCodec{}))
				f.wantCode(name, err, codes.Unauthenticated)
			}
		}
		if tried == 0 {
			t.Error("no method was tried")
		}
	})
}

func TestHealth_FollowsReadinessAndNeedsNoToken(t *testing.T) {
	bothWays(t, healthFollowsReadinessAndNeedsNoToken)
}

func healthFollowsReadinessAndNeedsNoToken(t *testing.T, by way) {
	f := newFixture(t, by, nil)
	state := func(service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
		t.Helper()
		r, err := f.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		return r.GetStatus()
	}
	state("") // makes the connection one of the loop
	watch, err := f.health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if r, err := watch.Recv(); err != nil || r.GetStatus() != want {
			t.Errorf("watch: got %v, %v, want %s", r, err, want)
		}
	}
	next(grpc_health_v1.HealthCheckResponse_SERVING)
	for _, service := range append(Services(), "") {
		if got := state(service); got != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %s", service, got)
		}
	}
	f.notReady.Store(true)
	f.server.Unready()
	next(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	for _, service := range append(Services(), "") {
		if got := state(service); got != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("%q: %s", service, got)
		}
	}
	_, err = f.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "another"})
	f.wantCode("another service", err, codes.NotFound)
	if err := f.server.Close(t.Context()); err != nil { // although somebody watches
		t.Error(err)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ended with %v", err)
	}
}

func TestCalls_WithoutMeaningAreInvalid(t *testing.T) { bothWays(t, callsWithoutMeaningAreInvalid) }

func callsWithoutMeaningAreInvalid(t *testing.T, by way) {
	f := newFixture(t, by, perUser(5))
	one := []*commonv3.RateLimitDescriptor{descriptorOf("a", "b")}
	edited := func(edit func(*commonv3.RateLimitDescriptor)) []*commonv3.RateLimitDescriptor {
		d := descriptorOf("a", "b")
		edit(d)
		return []*commonv3.RateLimitDescriptor{descriptorOf("a", "b"), d}
	}
	for name, m := range map[string]*ratelimitv3.RateLimitRequest{
		"no domain":      {Descriptors: one},
		"no descriptors": {Domain: "shop"},
		"unit": {Domain: "shop", Descriptors: edited(func(d *commonv3.RateLimitDescriptor) {
			d.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1}
		})},
		"window": {Domain: "shop", Descriptors: edited(func(d *commonv3.RateLimitDescriptor) {
			d.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{Unit: 6, UnitMultiplier: wrapperspb.UInt32(1 << 31)}
		})},
		"addend": {Domain: "shop", Descriptors: edited(func(d *commonv3.RateLimitDescriptor) {
			d.HitsAddend = wrapperspb.UInt64(1 << 53)
		})},
		"descriptors": {Domain: "shop", Descriptors: make([]*commonv3.RateLimitDescriptor, 65)},
	} {
		for i := range m.Descriptors {
			if m.Descriptors[i] == nil {
				m.Descriptors[i] = one[0]
			}
		}
		_, err := f.limits.ShouldRateLimit(f.with(access.ScopeCheck), m)
		f.wantCode(name, err, codes.InvalidArgument)
	}
	for name, raw := range map[string]string{"UTF-8": "\x0a\x01\xff", "protobuf": "\x0a\x05a", "UTF-8 in an entry": "" +
		"\x0a\x01a\x12\x05\x0a\x03\x0a\x01\xff"} {
		err := f.conn.Invoke(f.with(access.ScopeCheck), ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName,
			raw, new(string), grpc.ForceCodecV2(textCodec{}))
		f.wantCode(name, err, codes.InvalidArgument)
	}
	if got := f.counted("ratelimit", "invalid"); got != 9 {
		t.Errorf("%d invalid calls counted, want 9", got)
	}
	rest := proto.Size(&ratelimitv3.RateLimitRequest{Domain: strings.Repeat("d", 1<<15), Descriptors: one}) - 1<<15
	for _, tt := range []struct {
		size int
		want codes.Code
	}{{maxMessage, codes.OK}, {maxMessage + 1, codes.ResourceExhausted}} {
		long := &ratelimitv3.RateLimitRequest{Domain: strings.Repeat("d", tt.size-rest), Descriptors: one}
		_, err := f.limits.ShouldRateLimit(f.with(access.ScopeCheck), long)
		f.wantCode(fmt.Sprint(tt.size, " bytes"), err, tt.want)
	}
	for _, profile := range []string{"", "none"} {
		_, err := f.check(profile, "GET", "/")
		f.wantCode("profile "+profile, err, codes.InvalidArgument)
	}
	if got := f.counted("ext_authz", "unknown_profile"); got != 2 {
		t.Errorf("%d unknown profiles counted, want 2", got)
	}
	_, err := f.check("shop", "GET", "/", "x-weight", "many")
	f.wantCode("weight", err, codes.InvalidArgument)
	f.sets.Store(nil)
	_, err = f.check("shop", "GET", "/")
	f.wantCode("no rules", err, codes.Unavailable)
	_, err = f.call("shop", one...)
	f.wantCode("no rules", err, codes.Unavailable)
}

// TestServer_HasNoReflection, so that it does not describe itself to strangers.
func TestServer_HasNoReflection(t *testing.T) {
	f := newFixture(t, byGRPC, nil)
	for service := range f.server.grpc().GetServiceInfo() {
		if strings.Contains(service, "reflection") {
			t.Error(service)
		}
	}
}

func TestCheck_AnswersAsTheGatewaysFacesDo(t *testing.T) {
	bothWays(t, checkAnswersAsTheGatewaysFacesDo)
}

func checkAnswersAsTheGatewaysFacesDo(t *testing.T, by way) {
	f := newFixture(t, by, perUser(2))
	for left := 1; left >= 0; left-- {
		r, err := f.check("shop", "GET", "/users/17", "x-user", "42")
		if err != nil || r.GetStatus().GetCode() != 0 || r.GetOkResponse() == nil {
			t.Fatalf("got %v, %v", r, err)
		}
		headers := optionsIn(r.GetOkResponse().GetResponseHeadersToAdd())
		if headers["X-RateLimit-Limit"] != "2" || headers["X-RateLimit-Remaining"] != string(rune('0'+left)) {
			t.Errorf("headers %v", headers)
		}
		if r.GetDynamicMetadata().GetFields()["rule"].GetStringValue() != "per-user" {
			t.Errorf("metadata %v", r.GetDynamicMetadata())
		}
	}
	r, err := f.check("shop", "GET", "/users/17", "cookie", "a=b; uid=42")
	if err != nil {
		t.Fatal(err)
	}
	denied := r.GetDeniedResponse()
	headers := optionsIn(denied.GetHeaders())
	if codes.Code(r.GetStatus().GetCode()) != codes.ResourceExhausted || denied.GetStatus().GetCode() != 429 ||
		headers["Retry-After"] != "60" || headers["Content-Type"] != "application/problem+json" {
		t.Errorf("got %v", r)
	}
	var problem struct {
		Status   int
		Policies []string `json:"violated-policies"`
	}
	if err := json.Unmarshal([]byte(denied.GetBody()), &problem); err != nil || problem.Status != 429 ||
		problem.Policies[0] != "per-user" {
		t.Errorf("body %s: %v", denied.GetBody(), err)
	}
	if by := r.GetDynamicMetadata().GetFields()["denied_by"].GetStringValue(); by != "per-user" {
		t.Errorf("denied by %q", by)
	}
	for result, want := range map[string]int{"allowed": 2, "denied": 1} {
		if got := f.counted("ext_authz", result); got != want {
			t.Errorf("%d %s, want %d", got, result, want)
		}
	}
}

func TestCheck_ClosedFailModeAndMissingFact(t *testing.T) {
	bothWays(t, checkClosedFailModeAndMissingFact)
}

func checkClosedFailModeAndMissingFact(t *testing.T, by way) {
	f := newFixture(t, by, perUser(2))
	f.store.fault = gone
	r, err := f.check("shop", "GET", "/", "x-user", "42")
	if err != nil || r.GetDeniedResponse().GetStatus().GetCode() != 503 || r.GetStatus().GetCode() == 0 {
		t.Errorf("got %v, %v", r, err)
	}
	if headers := optionsIn(r.GetDeniedResponse().GetHeaders()); headers["Retry-After"] != "1" ||
		headers["X-RateLimit-Mode"] != rules.FailClosed {
		t.Errorf("headers %v", headers)
	}
	f.store.fault = nil
	p := shop()
	p.Missing = map[string]profile.MissingFact{"user": {Action: profile.MissingDeny}}
	f.load(2, perUser(2), p)
	r, err = f.check("shop", "GET", "/")
	if err != nil || r.GetDeniedResponse().GetStatus().GetCode() != 403 ||
		codes.Code(r.GetStatus().GetCode()) != codes.PermissionDenied ||
		!strings.Contains(r.GetDeniedResponse().GetBody(), `"about:blank"`) {
		t.Errorf("got %v, %v", r, err)
	}
	if r, err := f.check("shop", "OPTIONS", "/"); err != nil || r.GetOkResponse() == nil {
		t.Errorf("a method that is skipped: %v, %v", r, err)
	}
}

func TestCheck_ClientAddress(t *testing.T) { bothWays(t, checkClientAddress) }

func checkClientAddress(t *testing.T, by way) {
	f := newFixture(t, by, perUser(1, func(r *rules.Rule) { r.Scope = "ip" }))
	allowed := func(header ...string) bool {
		t.Helper()
		r, err := f.check("shop", "GET", "/", header...)
		if err != nil {
			t.Fatal(err)
		}
		return r.GetOkResponse() != nil
	}
	if !allowed() || allowed() {
		t.Error("without the header, the address is that of the source, always the same")
	}
	if !allowed("x-forwarded-for", "198.51.100.1, 10.0.0.1") || allowed("x-forwarded-for", "198.51.100.1") {
		t.Error("the address is that of the header")
	}
	if allowed("x-forwarded-for", "203.0.113.9") {
		t.Error("the address of the source is the same in the header")
	}
}

func TestCalls_HaveTheCallersTimeLessTheMargin(t *testing.T) {
	bothWays(t, callsHaveTheCallersTimeLessTheMargin)
}

func callsHaveTheCallersTimeLessTheMargin(t *testing.T, by way) {
	f := newFixture(t, by, perUser(5))
	var left time.Duration
	f.store.fault = func(ctx context.Context) error {
		until, _ := ctx.Deadline()
		left = time.Until(until)
		return gone(ctx)
	}
	const patience = 500 * time.Millisecond // below the node's second
	ctx, cancel := context.WithTimeout(f.with(access.ScopeCheck), patience)
	defer cancel()
	if _, err := f.auth.Check(ctx, checkOf("shop", "GET", "/", "x-user", "42")); err != nil {
		t.Fatal(err)
	}
	if left > patience-margin {
		t.Errorf("the store has %s of %s", left, patience)
	}
}

// The caller's time less the margin for the way back and the reserve for the fail modes.
func TestWithMargin_EndsEarly(t *testing.T) {
	until := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(t.Context(), until)
	defer cancel()
	bounded, err := withMargin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := bounded.Deadline(); !ok || !got.Equal(until.Add(-margin-maxReserve)) {
		t.Errorf("the call ends %s early", until.Sub(got))
	}
	cancel()
	if _, err := withMargin(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("of a caller that has left: %v", err)
	}
}

func TestCalls_APanicIsAnErrorOfTheNode(t *testing.T) { bothWays(t, callsAPanicIsAnErrorOfTheNode) }

func callsAPanicIsAnErrorOfTheNode(t *testing.T, by way) {
	f := newFixture(t, by, perUser(5))
	f.store.fault = func(context.Context) error { panic("boom \n") }
	_, err := f.check("shop", "GET", "/", "x-user", "42")
	f.wantCode("panic", err, codes.Internal)
	if f.panicked.Load() != 1 || f.counted("ext_authz", "error") != 1 || !strings.Contains(f.logged.String(), "boom") ||
		strings.Contains(err.Error(), "boom") {
		t.Errorf("%d panics, %v\n%s", f.panicked.Load(), err, f.logged.String())
	}
	f.store.fault = nil
	if r, err := f.check("shop", "GET", "/", "x-user", "42"); err != nil || r.GetOkResponse() == nil {
		t.Errorf("after it: %v, %v", r, err)
	}
}

func TestClose_LetsCallsFinish(t *testing.T) { bothWays(t, closeLetsCallsFinish) }

func closeLetsCallsFinish(t *testing.T, by way) {
	f := newFixture(t, by, perUser(5))
	entered, leave := make(chan struct{}), make(chan struct{})
	f.store.fault = func(ctx context.Context) error {
		close(entered)
		<-leave
		return gone(ctx)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := f.check("shop", "GET", "/", "x-user", "42")
		answered <- err
	}()
	<-entered
	closed := make(chan error, 1)
	go func() { closed <- f.server.Close(context.Background()) }()
	select {
	case err := <-closed:
		t.Fatalf("closed with a call in flight: %v", err)
	case err := <-answered:
		t.Fatalf("answered early: %v", err)
	case <-f.server.health.stopped:
	}
	close(leave)
	if err := errors.Join(<-answered, <-closed); err != nil {
		t.Error(err)
	}
}

func TestRLS_IsStrictJSON(t *testing.T) {
	f := newFixture(t, byGRPC, perUser(5))
	for body, want := range map[string]int{
		`{"domain":"api","descriptors":[{"entries":[{"key":"u","value":"b"}]}]}`: 200,
		`{"domain":"d","descriptors":[{}],"more":1}`:                             400,
		`{"domain":"d","domain":"e"}`:                                            400,
		`{"` + strings.Repeat("x", 60_000) + `":1}`:                              400,
		`{`:                     400,
		`[]`:                    400,
		"{\"domain\":\"\xff\"}": 400,
		`{"domain":"d"}`:        422,
		`{"descriptors":[{}]}`:  422,
		`{"domain":"d","descriptors":[{"hitsAddend":"9007199254740992"}]}`: 422,
	} {
		got, answer, err := f.server.RLS(t.Context(), []byte(body))
		if p := (*reply.Problem)(nil); errors.As(err, &p) {
			got = p.Status
			if strings.Contains(p.Detail, "proto:") || len(p.Detail) > 300 {
				t.Errorf("%.50s: the detail is %q", body, p.Detail)
			}
		} else if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if got != want {
			t.Errorf("%s: got %d %s, want %d", body, got, answer, want)
		}
	}
	f.sets.Store(nil)
	if _, _, err := f.server.RLS(t.Context(), []byte(`{}`)); err == nil {
		t.Error("no rules: no error")
	} else if p, ok := reply.ProblemOf(err); !ok || p.Status != http.StatusServiceUnavailable {
		t.Errorf("no rules: %v", err)
	}
}
