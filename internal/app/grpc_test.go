package app

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"sluice/internal/access"
	"sluice/internal/config"
)

// withLoopAndWithout runs a test with the loop and without.
func withLoopAndWithout(t *testing.T, test func(t *testing.T, loop string)) {
	t.Parallel()
	for _, loop := range []string{"on", "off"} {
		t.Run("loop "+loop, func(t *testing.T) {
			t.Parallel()
			test(t, loop)
		})
	}
}

// startGRPC starts a server with gRPC on a free port and returns its gRPC address.
func startGRPC(t testing.TB, cfg config.Serve) (*node, string) {
	t.Helper()
	cfg.GRPCListen = "127.0.0.1:0"
	n := start(t, cfg)
	_, addr, _ := strings.Cut(n.log.String(), `msg="listening for gRPC" address=`)
	addr, _, _ = strings.Cut(addr, "\n")
	return n, addr
}

// dialled is a client that counts its connections.
type dialled struct {
	ratelimitv3.RateLimitServiceClient
	conn  *grpc.ClientConn
	dials atomic.Int64
}

func dialGRPC(t testing.TB, addr string, secure *tls.Config) *dialled {
	t.Helper()
	transport := insecure.NewCredentials()
	if secure != nil {
		secure.ServerName = "localhost"
		transport = credentials.NewTLS(secure)
	}
	d := &dialled{}
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(transport),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
			if err == nil {
				d.dials.Add(1)
			}
			return c, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	d.RateLimitServiceClient, d.conn = ratelimitv3.NewRateLimitServiceClient(conn), conn
	return d
}

// hit is one call of the domain shop for a user.
func (d *dialled) hit(ctx context.Context, user string, opts ...grpc.CallOption) (
	*ratelimitv3.RateLimitResponse, error) {
	return d.ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{Domain: "shop",
		Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{
			{Key: "path", Value: "/pay"}, {Key: "user", Value: user}}}}}, opts...)
}

const payRule = `{"name": "pay", "limit": 2, "window_ms": 3600000, "algorithm": "fixed_window",
	"descriptor": {"domain": "shop", "entries": [{"key": "path", "value": "/pay"}, {"key": "user"}]}}`

func TestGRPC_ServesRulesAndSaysWhere(t *testing.T) {
	withLoopAndWithout(t, grpcServesRulesAndSaysWhere)
}

func grpcServesRulesAndSaysWhere(t *testing.T, loop string) {
	cfg := settings(t)
	cfg.Loop = loop
	n, addr := startGRPC(t, cfg)
	if !strings.Contains(n.out.String(), "(gRPC) are on "+addr) {
		t.Errorf("it says %s", n.out)
	}
	n.create(payRule)
	d := dialGRPC(t, addr, nil)
	for _, want := range []ratelimitv3.RateLimitResponse_Code{1, 1, 2} {
		r, err := d.hit(t.Context(), "42")
		if err != nil || r.GetOverallCode() != want || r.GetStatuses()[0].GetCurrentLimit().GetName() != "pay" {
			t.Errorf("got %v, %v, want %s", r, err, want)
		}
	}
	// The same over HTTP, as JSON.
	body := `{"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/pay"},{"key":"user","value":"42"}]}]}`
	if code, doc := n.send(http.MethodPost, "/ratelimit/rls", body); code != http.StatusTooManyRequests ||
		doc["overallCode"] != "OVER_LIMIT" {
		t.Errorf("rls: %d %v", code, doc)
	}
	metrics := n.text("/metrics")
	for _, want := range []string{
		`sluice_envoy_calls_total{face="ratelimit",result="allowed"} 2`,
		`sluice_envoy_calls_total{face="rls",result="denied"} 1`,
		`sluice_envoy_domain_calls_total{domain="shop",result="denied"} 2`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
}

func TestGRPC_ARevokedTokenStops(t *testing.T) { withLoopAndWithout(t, grpcARevokedTokenStops) }

func grpcARevokedTokenStops(t *testing.T, loop string) {
	cfg := settings(t)
	cfg.Loop = loop
	_, addr := startGRPC(t, cfg)
	token, secret, err := CreateToken(t.Context(), cfg.Storage,
		NewToken{Name: "envoy", Scopes: []access.Scope{access.ScopeCheck}, By: "test"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	d := dialGRPC(t, addr, nil)
	with := metadata.AppendToOutgoingContext(t.Context(), "sluice-token", secret)
	eventually(t, "the token is known, and needed", func() bool {
		_, err := d.hit(with, "42")
		_, without := d.hit(t.Context(), "42")
		return err == nil && status.Code(without) == codes.Unauthenticated
	})
	if _, err := RevokeToken(t.Context(), cfg.Storage, token.Name, "test"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the revoked token is refused", func() bool {
		_, err := d.hit(with, "42")
		return status.Code(err) == codes.Unauthenticated
	})
	health := grpc_health_v1.NewHealthClient(d.conn)
	if r, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil ||
		r.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health without a token: %v, %v", r, err)
	}
}

func TestGRPC_ANetworkAddressNeedsAToken(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.GRPCListen = "0.0.0.0:0"
	_, err := tryStart(t, cfg)
	if !errors.Is(err, errNoGRPCCredentials) || !strings.Contains(err.Error(), "SLUICE_GRPC_LISTEN") {
		t.Errorf("start: %v", err)
	}
}

func TestGRPC_StartNamesTheSettingWhoseAddressIsInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it waits for nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := settings(t)
	cfg.GRPCListen = l.Addr().String()
	if _, err := tryStart(t, cfg); err == nil || !strings.Contains(err.Error(), "SLUICE_GRPC_LISTEN") {
		t.Errorf("start: %v", err)
	}
}

func TestGRPC_TLSFollowsItsFiles(t *testing.T) { withLoopAndWithout(t, grpcTLSFollowsItsFiles) }

func grpcTLSFollowsItsFiles(t *testing.T, loop string) {
	s, cfg := newSecured(t), settings(t)
	cfg.Loop = loop
	cfg.TLSCertFile, cfg.TLSKeyFile, cfg.TLSClientCAFile = s.files.Cert, s.files.Key, s.files.CA
	n, addr := startGRPC(t, cfg)
	n.client.Transport = &http.Transport{TLSClientConfig: s.authority.Client(t, ""), DisableKeepAlives: true}
	// served is the name in the certificate of a new connection, from a client with a certificate or without.
	served := func(client string) string {
		var from peer.Peer
		d := dialGRPC(t, addr, s.authority.Client(t, client))
		if _, err := d.hit(t.Context(), "42", grpc.Peer(&from)); err != nil {
			t.Fatal(err)
		}
		info, ok := from.AuthInfo.(credentials.TLSInfo)
		if !ok || info.State.NegotiatedProtocol != "h2" {
			t.Fatalf("%+v", from.AuthInfo)
		}
		return info.State.PeerCertificates[0].Subject.CommonName
	}
	for _, client := range []string{"", "gateway.test"} {
		if got := served(client); got != "first.test" {
			t.Errorf("the certificate is that of %s", got)
		}
	}
	cert, key := s.authority.Issue(t, t.TempDir(), "second.test", time.Now().Add(time.Hour))
	if err := errors.Join(os.Rename(cert, s.files.Cert), os.Rename(key, s.files.Key)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new certificate is served", func() bool { return served("") == "second.test" })
	stranger := newSecured(t).authority.Client(t, "stranger.test") // a certificate of another authority
	stranger.RootCAs = s.authority.Client(t, "").RootCAs
	if _, err := dialGRPC(t, addr, stranger).hit(t.Context(), "42"); status.Code(err) != codes.Unavailable {
		t.Errorf("a certificate of a stranger: %v", err)
	}
	if _, err := dialGRPC(t, addr, nil).hit(t.Context(), "42"); status.Code(err) != codes.Unavailable {
		t.Errorf("without TLS: %v", err)
	}
	eventually(t, "failed handshakes are counted", func() bool {
		n.url = "https" + strings.TrimPrefix(strings.TrimPrefix(n.url, "https"), "http")
		return !strings.Contains(n.text("/metrics"), "sluice_tls_handshake_failures_total 0")
	})
}

func TestGRPC_ConnectionsMoveOnAtTheirMaxAge(t *testing.T) {
	withLoopAndWithout(t, grpcConnectionsMoveOnAtTheirMaxAge)
}

func grpcConnectionsMoveOnAtTheirMaxAge(t *testing.T, loop string) {
	cfg := settings(t)
	cfg.Loop = loop
	cfg.GRPCMaxAge = 300 * time.Millisecond
	_, addr := startGRPC(t, cfg)
	d := dialGRPC(t, addr, nil)
	var callers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		callers.Go(func() {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				if _, err := d.hit(t.Context(), "42"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	eventually(t, "the client has a third connection", func() bool { return d.dials.Load() > 2 || t.Failed() })
	close(stop)
	callers.Wait()
}

// While a node drains, calls over old and new connections are answered, and health says that it goes.
func TestGRPC_DrainLosesNoCall(t *testing.T) { withLoopAndWithout(t, grpcDrainLosesNoCall) }

func grpcDrainLosesNoCall(t *testing.T, loop string) {
	for name, delay := range map[string]time.Duration{"without a drain delay": 0, "with one": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			cfg := settings(t)
			cfg.Loop = loop
			cfg.DrainDelay = delay
			n, addr := startGRPC(t, cfg)
			watched := dialGRPC(t, addr, nil)
			watch, err := grpc_health_v1.NewHealthClient(watched.conn).Watch(t.Context(),
				&grpc_health_v1.HealthCheckRequest{})
			if err != nil {
				t.Fatal(err)
			}
			wantHealth(t, watch, grpc_health_v1.HealthCheckResponse_SERVING)
			var answered atomic.Int64
			var workers sync.WaitGroup
			for range 4 {
				workers.Go(func() {
					for fresh(t, addr) {
						answered.Add(1)
					}
				})
			}
			idle := dialGRPC(t, addr, nil)
			if _, err := idle.hit(t.Context(), "42"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "calls are answered", func() bool { return answered.Load() > 50 })
			n.cancel()
			wantHealth(t, watch, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
			workers.Wait()
			n.stop()
		})
	}
}

func wantHealth(t *testing.T, watch grpc.ServerStreamingClient[grpc_health_v1.HealthCheckResponse],
	want grpc_health_v1.HealthCheckResponse_ServingStatus) {
	t.Helper()
	if r, err := watch.Recv(); err != nil || r.GetStatus() != want {
		t.Errorf("health is %v, %v, want %s", r, err, want)
	}
}

// fresh makes a call over a connection of its own. It returns false once connections are refused, and fails the test if
// a call over one that was accepted is lost.
func fresh(t *testing.T, addr string) bool {
	d := dialGRPC(t, addr, nil)
	defer d.conn.Close()
	_, err := d.hit(t.Context(), "42")
	if err != nil && d.dials.Load() > 0 {
		t.Errorf("a call is lost: %v", err)
	}
	return err == nil
}
