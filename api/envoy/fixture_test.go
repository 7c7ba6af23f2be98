package envoy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"sluice/api/decide"
	"sluice/internal/access"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/profile"
)

var insecureCredentials = insecure.NewCredentials()

// way is what serves the connections of a fixture.
type way string

const (
	byLoop way = "loop"
	byGRPC way = "grpc-go"
)

// bothWays runs a test with the loop and without.
func bothWays(t *testing.T, test func(t *testing.T, by way)) {
	t.Helper()
	for _, by := range []way{byLoop, byGRPC} {
		t.Run(string(by), func(t *testing.T) { test(t, by) })
	}
}

// epoch is when tests happen, in ms: a full minute.
const epoch = int64(1_795_260_000_000)

// fixture is a server on a memory store whose clock a test sets, with a client over loopback.
type fixture struct {
	t        testing.TB
	now      atomic.Int64
	sets     match.Current
	keys     access.Current
	secrets  map[access.Scope]string
	store    *faultStore
	server   *Server
	conn     *grpc.ClientConn
	limits   ratelimitv3.RateLimitServiceClient
	auth     authv3.AuthorizationClient
	health   grpc_health_v1.HealthClient
	logged   strings.Builder
	panicked atomic.Int64
	notReady atomic.Bool

	mu     sync.Mutex
	counts map[string]int // by face and result, domain and result, and reason
}

// faultStore is a store that fails while fault is set.
type faultStore struct {
	limiter.Store
	fault func(context.Context) error
}

func (s *faultStore) Do(ctx context.Context, r *limiter.Request, res *limiter.Result) error {
	if s.fault != nil {
		return s.fault(ctx)
	}
	return s.Store.Do(ctx, r, res)
}

func (s *faultStore) DoAll(ctx context.Context, calls []limiter.Call) {
	if s.fault == nil {
		s.Store.DoAll(ctx, calls)
		return
	}
	for i := range calls {
		calls[i].Err = s.fault(ctx)
	}
}

// gone is a store that cannot be reached.
func gone(context.Context) error {
	return &limiter.StoreError{Cause: limiter.CauseConnection, Err: errors.New("gone")}
}

func (f *fixture) count(words ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[strings.Join(words, " ")]++
}

// counted is how often something was counted.
func (f *fixture) counted(words ...string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[strings.Join(words, " ")]
}

type counter struct{ *fixture }

func (c counter) CountCall(face, result string) { c.count(face, result) }
func (c counter) CountDomain(domain, result string) {
	c.count("domain", domain, result)
	if domain == "boom" {
		panic("boom")
	}
}
func (c counter) CountFlood(reason string)  { c.count("flood", reason) }
func (c counter) HoldQuota(int, int)        {}
func (c counter) RefuseQuota(reason string) { c.count("quota", reason) }
func (c counter) CountQuota(what string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts["units "+what] += int(n)
}

// shop is a profile for ext_authz, and for the domain api.
func shop() profile.Profile {
	return profile.Profile{
		Name: "shop", Version: 1, Claims: profile.ClaimsTrusted, ClaimsHeader: "Authorization",
		Facts: profile.Facts{
			User:   []profile.Source{{Header: "X-User"}, {Cookie: "uid"}, {Claim: "sub"}},
			APIKey: []profile.Source{{Header: "X-Api-Key"}},
		},
		ClientIP: profile.ClientIP{Header: "X-Forwarded-For", Trusted: []string{"10.0.0.0/8"}},
		Routes:   []string{"/users/{id}"}, Path: profile.PathNormal, SkipMethods: []string{"OPTIONS"},
		Missing: map[string]profile.MissingFact{"attr:tenant": {Value: "none"}},
		Weight:  &profile.WeightSource{Header: "X-Weight"},
		Headers: []string{"Retry-After", "RateLimit-Policy", "RateLimit", "X-RateLimit-*"},
		Domain:  "api", Entries: map[string]string{"u": "user", "remote_address": "ip", "verb": "method"},
	}
}

// perUser allows n requests per user and minute.
func perUser(n int64, edit ...func(*rules.Rule)) []rules.Rule {
	r := rules.Rule{ID: 1, Name: "per-user", Scope: "user", Limit: n, WindowMS: 60_000, Algorithm: "fixed_window",
		FailMode: rules.FailClosed, IsActive: true, Version: 1}
	for _, e := range edit {
		e(&r)
	}
	r.Normalize()
	return []rules.Rule{r}
}

func newFixture(t testing.TB, by way, rs []rules.Rule, edit ...func(*Deps)) *fixture {
	t.Helper()
	f := &fixture{t: t, counts: map[string]int{}, secrets: map[access.Scope]string{}}
	f.now.Store(epoch)
	clock := func() time.Time { return time.UnixMilli(f.now.Load()).UTC() }
	newStore := func() limiter.Store {
		s := memstore.New(memstore.Options{Clock: f.now.Load})
		t.Cleanup(func() { s.Close() })
		return s
	}
	f.store = &faultStore{Store: newStore()}
	checker, err := decide.NewChecker(decide.CheckerOptions{Sets: &f.sets, Store: f.store, Local: newStore(),
		Timeout: time.Second, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	f.tokens(nil)
	d := Deps{
		Loop:    by == byLoop,
		Checker: checker, Access: &f.keys, Now: clock, Observe: counter{f},
		Refused: func(endpoint string, r *access.Refusal) { f.count(endpoint, r.Reason.String()) },
		Ready: func() error {
			if f.notReady.Load() {
				return decide.ErrNoSet
			}
			return nil
		},
		Panicked: func() { f.panicked.Add(1) }, Logger: slog.New(slog.NewTextHandler(&f.logged, nil)),
	}
	for _, e := range edit {
		e(&d)
	}
	if f.server, err = New(d); err != nil {
		t.Fatal(err)
	}
	f.load(1, rs, shop())
	f.listen()
	return f
}

// tokens puts a token of each scope in force.
func (f *fixture) tokens(edit func(*access.Token)) {
	var all []access.Token
	for i, scope := range []access.Scope{access.ScopeCheck, access.ScopeRulesRead} {
		secret, hash := access.NewSecret()
		f.secrets[scope] = secret
		token := access.Token{ID: int64(i + 1), Name: string(scope), Hash: hash, Scopes: []access.Scope{scope}}
		if edit != nil {
			edit(&token)
		}
		all = append(all, token)
	}
	f.keys.Store(access.NewKeyring(all))
}

// load puts rules and profiles in force.
func (f *fixture) load(version int64, rs []rules.Rule, profiles ...profile.Profile) {
	f.t.Helper()
	set, err := match.CompileSource(rules.Source{Rules: rs, Profiles: profiles, Version: version}, match.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.sets.Store(set)
}

func (f *fixture) listen() {
	f.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it waits for nothing
	if err != nil {
		f.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(l) }()
	f.conn, err = grpc.NewClient("passthrough:///"+l.Addr().String(),
		grpc.WithTransportCredentials(insecureCredentials))
	if err != nil {
		f.t.Fatal(err)
	}
	f.limits, f.auth = ratelimitv3.NewRateLimitServiceClient(f.conn), authv3.NewAuthorizationClient(f.conn)
	f.health = grpc_health_v1.NewHealthClient(f.conn)
	f.t.Cleanup(func() {
		_ = f.conn.Close()
		// The calls of a test that failed may be in flight.
		_ = f.server.Close(context.Background())
		if err := <-served; err != nil {
			f.t.Error(err)
		}
	})
}

// with is a context with a token of a scope, "" for none.
func (f *fixture) with(scope access.Scope) context.Context {
	ctx := f.t.Context()
	if scope == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+f.secrets[scope])
}

// descriptorOf makes a descriptor of keys and values.
func descriptorOf(pairs ...string) *commonv3.RateLimitDescriptor {
	d := &commonv3.RateLimitDescriptor{}
	for i := 0; i+1 < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

// call calls the RateLimitService.
func (f *fixture) call(domain string, list ...*commonv3.RateLimitDescriptor) (*ratelimitv3.RateLimitResponse, error) {
	f.t.Helper()
	return f.limits.ShouldRateLimit(f.with(access.ScopeCheck), &ratelimitv3.RateLimitRequest{Domain: domain,
		Descriptors: list})
}

// check calls the Authorization service; header pairs follow.
func (f *fixture) check(profile, method, path string, header ...string) (*authv3.CheckResponse, error) {
	f.t.Helper()
	return f.auth.Check(f.with(access.ScopeCheck), checkOf(profile, method, path, header...))
}

// wantCode fails the test unless an error has a code.
func (f *fixture) wantCode(what string, err error, want codes.Code) {
	f.t.Helper()
	if got := status.Code(err); got != want {
		f.t.Errorf("%s: got %s, want %s: %v", what, got, want, err)
	}
}

// optionsIn returns headers by name.
func optionsIn(list []*corev3.HeaderValueOption) map[string]string {
	all := map[string]string{}
	for _, h := range list {
		all[h.GetHeader().GetKey()] = h.GetHeader().GetValue()
	}
	return all
}

// textCodec sends strings as they are.
type textCodec struct{}

func (textCodec) Name() string { return "proto" }

func (textCodec) Marshal(v any) (mem.BufferSlice, error) {
	s, _ := v.(string)
	return mem.BufferSlice{mem.SliceBuffer(s)}, nil
}

func (textCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if s, ok := v.(*string); ok {
		*s = string(data.Materialize())
	}
	return nil
}
