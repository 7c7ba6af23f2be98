package envoy

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"sluice/api/decide"
	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/match"
)

// What is not gRPC is hung up on, and the callers of other connections do not notice.
func TestServe_HangsUpOnWhatIsNotGRPC(t *testing.T) { bothWays(t, serveHangsUpOnWhatIsNotGRPC) }

func serveHangsUpOnWhatIsNotGRPC(t *testing.T, by way) {
	f := newFixture(t, by, perUser(5))
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", strings.TrimPrefix(f.conn.Target(), "passthrough:///")) //nolint:noctx // loopback
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	for name, text := range map[string]string{
		"HTTP/1":                  "POST /ratelimit/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
		"a wrong preface":         "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + strings.Repeat("\x00", 64),
		"garbage after a preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\xff", 64),
	} {
		conn := dial()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if answer, _ := io.ReadAll(conn); strings.Contains(string(answer), "HTTP/1") {
			t.Errorf("%s: answered %q", name, answer)
		}
		_ = conn.Close()
	}
	conn := tls.Client(dial(), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // test
	if err := conn.HandshakeContext(t.Context()); err == nil {
		t.Error("a plain port performs a handshake of TLS")
	}
	_ = conn.Close()
	_, err := f.check("shop", "GET", "/", "x-user", "42")
	f.wantCode("a call after all that", err, codes.OK)
}

// With authorization, sluice-token is not read.
func TestCalls_WithTwoTokens(t *testing.T) { bothWays(t, callsWithTwoTokens) }

func callsWithTwoTokens(t *testing.T, by way) {
	f := newFixture(t, by, perUser(5))
	good := f.secrets[access.ScopeCheck]
	for _, tt := range []struct {
		name  string
		pairs []string
		want  codes.Code
	}{
		{"two authorizations", []string{"authorization", "Bearer " + good, "authorization", "Bearer " + good},
			codes.Unauthenticated},
		{"a good one twice", []string{"sluice-token", good, "sluice-token", good}, codes.Unauthenticated},
		{"a bad authorization first", []string{"authorization", "Bearer x", "sluice-token", good}, codes.Unauthenticated},
		{"a good authorization", []string{"authorization", "Bearer " + good, "sluice-token", "x"}, codes.OK},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), tt.pairs...)
		_, err := f.auth.Check(ctx, checkOf("shop", "GET", "/", "x-user", "42"))
		f.wantCode(tt.name, err, tt.want)
	}
}

// A token is checked when a call begins. If it is revoked before the message comes, that call is answered, no other.
func TestCalls_ATokenThatIsRevokedBeforeTheMessage(t *testing.T) {
	bothWays(t, callsATokenThatIsRevokedBeforeTheMessage)
}

func callsATokenThatIsRevokedBeforeTheMessage(t *testing.T, by way) {
	f := newFixture(t, by, perUser(5))
	ctx := f.with(access.ScopeCheck)
	stream, err := f.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	// The server reads a connection in order, so it knows the call when it has answered this one.
	if _, err := f.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	f.tokens(nil) // others
	r := &ratelimitv3.RateLimitRequest{Domain: "api",
		Descriptors: []*commonv3.RateLimitDescriptor{descriptorOf("u", "42")}}
	if err := stream.SendMsg(r); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	f.wantCode("a call that had begun", stream.RecvMsg(&ratelimitv3.RateLimitResponse{}), codes.OK)
	_, err = f.limits.ShouldRateLimit(ctx, r)
	f.wantCode("the next call", err, codes.Unauthenticated)
}

// A closed fail mode is OVER_LIMIT with the body of a 503, because an error would open Envoy's door. A local one
// counts.
func TestCalls_FailModesOfDescriptors(t *testing.T) { bothWays(t, callsFailModesOfDescriptors) }

func callsFailModesOfDescriptors(t *testing.T, by way) {
	var rs []rules.Rule
	for i, mode := range []string{rules.FailOpen, rules.FailClosed, rules.FailLocal} {
		r := rules.Rule{ID: int64(i + 1), Name: mode, Limit: 1, WindowMS: 60_000, FailMode: mode, IsActive: true, Version: 1}
		r.Descriptor = &rules.RuleDescriptor{Domain: "shop", Entries: []entries.Element{{Key: mode}}}
		r.Normalize()
		rs = append(rs, r)
	}
	f := newFixture(t, by, rs)
	f.store.fault = gone
	for _, step := range []struct {
		mode string
		code ratelimitv3.RateLimitResponse_Code
		body string
	}{
		{rules.FailOpen, ok, ""}, {rules.FailOpen, ok, ""}, {rules.FailClosed, over, `"status":503`},
		{rules.FailLocal, ok, ""}, {rules.FailLocal, over, `"status":429`},
	} {
		r, err := f.call("shop", descriptorOf(step.mode, "x"))
		if err != nil {
			t.Fatalf("%s: %v", step.mode, err)
		}
		if r.GetOverallCode() != step.code || r.GetStatuses()[0].GetCode() != step.code ||
			!strings.Contains(string(r.GetRawBody()), step.body) ||
			r.GetDynamicMetadata().GetFields()["degraded"].GetStringValue() != step.mode {
			t.Errorf("%s: got %v", step.mode, r)
		}
	}
	// The strictest fail mode of a call decides it.
	r, err := f.call("shop", descriptorOf(rules.FailOpen, "y"), descriptorOf(rules.FailClosed, "y"))
	if err != nil || r.GetOverallCode() != over || r.GetStatuses()[0].GetCode() != ok {
		t.Errorf("open and closed: %v, %v", r, err)
	}
}

// A connection that is asked to move on answers the calls that it has.
func TestMaxAge_CallsInFlightAreAnswered(t *testing.T) { bothWays(t, maxAgeCallsInFlightAreAnswered) }

func maxAgeCallsInFlightAreAnswered(t *testing.T, by way) {
	f := newFixture(t, by, perUser(5), func(d *Deps) { d.MaxAge = 10 * time.Millisecond })
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
	for f.conn.GetState() == connectivity.Ready { // until the connection is asked to move on
		f.conn.WaitForStateChange(t.Context(), connectivity.Ready)
	}
	close(leave)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// A fact that was missing would deny the next call, whoever makes it.
func TestPutBack_ForgetsTheCall(t *testing.T) {
	f := newFixture(t, byGRPC, perUser(5))
	x := newBuffers()
	x.in.message, x.facts.Denied, x.facts.Skip, x.single.RequestID = []byte("message"), "user", true, "id"
	x.request.Header = map[string][]string{"X-User": {"42"}}
	x.call, x.check.profile, x.q.Domain = &ratelimitv3.RateLimitRequest{Domain: "shop"}, "shop", "shop"
	x.entries = append(x.entries, entries.Entry{Key: "u", Value: "42"})
	all := x.entries
	x.lists = append(x.lists, []entries.Entry{{Key: "u", Value: "42"}})
	x.a.Statuses = append(x.a.Statuses, decide.DescriptorStatus{Rule: &match.Compiled{}})
	statuses := x.a.Statuses
	f.server.putBack(x)
	if len(x.in.message) > 0 || all[0] != (entries.Entry{}) || x.call != nil ||
		x.facts.Denied != "" || x.facts.Skip || x.single.RequestID != "" ||
		len(x.request.Header) > 0 ||
		x.check.profile+x.q.Domain != "" || x.lists[0] != nil || statuses[0].Rule != nil {
		t.Errorf("left in the pool: %+v", x)
	}
}
