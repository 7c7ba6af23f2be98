package envoy

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"sluice/internal/access"
)

// begun begins a call of the RateLimitService and sends no message.
func (f *fixture) begun(ctx context.Context) grpc.ClientStream {
	f.t.Helper()
	stream, err := f.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName)
	if err != nil {
		f.t.Fatal(err)
	}
	return stream
}

// TestCalls_WithoutATokenEndBeforeTheirMessage: a stranger that begins calls and sends nothing holds no memory.
func TestCalls_WithoutATokenEndBeforeTheirMessage(t *testing.T) {
	bothWays(t, callsWithoutATokenEndBeforeTheirMessage)
}

func callsWithoutATokenEndBeforeTheirMessage(t *testing.T, by way) {
	f := newFixture(t, by, perUser(5))
	far, cancel := context.WithTimeout(t.Context(), 1000*time.Hour)
	defer cancel()
	long, refused := codes.Unauthenticated, 3
	if by == byGRPC { // which would keep the deadline of a call that is refused at once
		long, refused = codes.DeadlineExceeded, 2
	}
	for name, tt := range map[string]struct {
		ctx  context.Context
		want codes.Code
	}{
		"no token":                 {f.with(""), codes.Unauthenticated},
		"another scope":            {f.with(access.ScopeRulesRead), codes.PermissionDenied},
		"no token, a far deadline": {far, long},
	} {
		err := f.begun(tt.ctx).RecvMsg(new(string))
		f.wantCode(name, err, tt.want)
	}
	if got := f.counted("ratelimit", "refused"); got != refused {
		t.Errorf("%d refused calls counted, want %d", got, refused)
	}
	for reason, want := range map[string]int{"none": 2, "scope": 1} { // each once, also with a far deadline
		if got := f.counted("envoy_ratelimit", reason); got != want {
			t.Errorf("%d calls refused for the reason %s, want %d", got, reason, want)
		}
	}
}

// TestBegin_BoundsTheTimeOfEveryCall also that until the message has arrived.
func TestBegin_BoundsTheTimeOfEveryCall(t *testing.T) {
	f := newFixture(t, byGRPC, nil)
	token := "Bearer " + f.secrets[access.ScopeCheck]
	near, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	far, cancel := context.WithTimeout(t.Context(), 1000*time.Hour)
	defer cancel()
	for _, tt := range []struct {
		name, method, token string
		ctx                 context.Context
		most                time.Duration // 0: none
		admitted            bool
	}{
		{"no deadline", ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, token, t.Context(), longestCall, true},
		{"a far one", ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, token, far, longestCall, true},
		{"a near one", ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, token, near, time.Second, true},
		{"a far one without a token", ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, "Bearer x", far,
			refusedWait, false},
		{"health", grpc_health_v1.Health_Check_FullMethodName, "", t.Context(), messageWait, false},
		{"health that is watched", grpc_health_v1.Health_Watch_FullMethodName, "", t.Context(), 0, false},
		{"an unknown method", "/a/b", "", t.Context(), messageWait, false},
	} {
		ctx := metadata.NewIncomingContext(tt.ctx, metadata.Pairs("authorization", tt.token))
		got, err := f.server.begin(ctx, &tap.Info{FullMethodName: tt.method})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		until, ok := got.Deadline()
		if latest := time.Now().Add(tt.most); ok != (tt.most > 0) || ok && until.After(latest) {
			t.Errorf("%s: ends at %v, want %v at most", tt.name, until, latest)
		}
		if isAdmitted := got.Value(admission{}) == admitted; isAdmitted != tt.admitted {
			t.Errorf("%s: admitted %v", tt.name, isAdmitted)
		}
	}
}

// A call whose message has not come ends soon, so that a client holds no memory with it and a drain does not wait.
func TestCalls_WithoutAMessageDoNotHoldUpADrain(t *testing.T) {
	bothWays(t, callsWithoutAMessageDoNotHoldUpADrain)
}

func callsWithoutAMessageDoNotHoldUpADrain(t *testing.T, by way) {
	for _, method := range []string{ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName,
		authv3.Authorization_Check_FullMethodName, grpc_health_v1.Health_Watch_FullMethodName,
		grpc_health_v1.Health_Check_FullMethodName, "/a/b"} {
		t.Run(method, func(t *testing.T) {
			f := newFixture(t, by, perUser(5))
			f.server.messageWait = time.Millisecond
			stream, err := f.conn.NewStream(f.with(access.ScopeCheck),
				&grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
			if err != nil {
				t.Fatal(err)
			}
			// The server reads a connection in order, so it knows the call when it has answered this one.
			_, _ = f.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			if err := f.server.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if err := stream.RecvMsg(new(string)); err == nil {
				t.Error("the call has an answer")
			}
		})
	}
}

// A call is not ended once its message has arrived.
func TestAwaiting_EndsWhenTheMessageHasArrived(t *testing.T) {
	ctx := awaiting(t.Context(), time.Hour)
	arrived(ctx)
	if ctx.Err() != nil {
		t.Error(ctx.Err())
	}
	arrived(t.Context()) // of a call with a near deadline
	late := awaiting(t.Context(), 0)
	<-late.Done()
	arrived(late)
}

// TestHealth_WatchesOfAConnectionAreBounded, because they need no token and never end. Those of others are not refused.
func TestHealth_WatchesOfAConnectionAreBounded(t *testing.T) {
	bothWays(t, healthWatchesOfAConnectionAreBounded)
}

func healthWatchesOfAConnectionAreBounded(t *testing.T, by way) {
	f := newFixture(t, by, nil)
	watch := func(c grpc_health_v1.HealthClient) error {
		t.Helper()
		stream, err := c.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		return err
	}
	if by == byLoop { // otherwise it gives the connection to grpc-go
		if _, err := f.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	for range maxWatches {
		f.wantCode("a watch", watch(f.health), codes.OK)
	}
	f.wantCode("one more", watch(f.health), codes.ResourceExhausted)
	another, err := grpc.NewClient(f.conn.Target(), grpc.WithTransportCredentials(insecureCredentials))
	if err != nil {
		t.Fatal(err)
	}
	defer another.Close()
	f.wantCode("of another connection", watch(grpc_health_v1.NewHealthClient(another)), codes.OK)
}
