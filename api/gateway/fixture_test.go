package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/access"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/profile"
)

// epoch is when tests happen, in ms.
const epoch = int64(1_795_260_000_000)

// fixture is the handler on a memory store whose clock a test sets.
type fixture struct {
	t        testing.TB
	now      atomic.Int64
	sets     match.Current
	keys     access.Current
	secret   string // of a token with the scope check
	store    *faultStore
	handler  *Handler
	logged   strings.Builder
	panicked atomic.Int64

	mu     sync.Mutex
	counts map[string]int // by face and result
}

// faultStore is a store that fails while fault is set.
type faultStore struct {
	limiter.Store
	fault func() error
	bound limiter.Bound // of the last request
}

func (s *faultStore) Do(ctx context.Context, r *limiter.Request, res *limiter.Result) error {
	if b, ok := ctx.(limiter.Bounded); ok {
		s.bound = b.Bound()
	}
	if s.fault != nil {
		return s.fault()
	}
	return s.Store.Do(ctx, r, res)
}

func (s *faultStore) DoAll(ctx context.Context, calls []limiter.Call) {
	if s.fault == nil {
		s.Store.DoAll(ctx, calls)
		return
	}
	for i := range calls {
		calls[i].Err = s.fault()
	}
}

// gone is a store that cannot be reached.
func gone() error {
	return &limiter.StoreError{Cause: limiter.CauseConnection, Err: errors.New("gone")}
}

// shop is a profile that accepts a token.
func shop() profile.Profile {
	return profile.Profile{
		Name: "shop", Version: 1, Claims: profile.ClaimsTrusted, ClaimsHeader: "Authorization",
		Facts: profile.Facts{
			User:   []profile.Source{{Header: "X-User"}, {Cookie: "uid"}, {Claim: "sub"}},
			APIKey: []profile.Source{{Header: "X-Api-Key"}},
		},
		ClientIP: profile.ClientIP{Header: "X-Forwarded-For", Trusted: []string{"10.0.0.0/8"}},
		Routes:   []string{"/users/{id}", "/files/*"}, Path: profile.PathNormal, SkipMethods: []string{"OPTIONS"},
		Headers: []string{"Retry-After", "RateLimit-Policy", "RateLimit", "X-RateLimit-*"},
		Proof:   profile.Proof{Token: true},
	}
}

// rule is a rule with a limit of n requests per day.
func rule(id int64, name, scope string, n int64, edit ...func(*rules.Rule)) rules.Rule {
	r := rules.Rule{ID: id, Name: name, Scope: scope, Limit: n, WindowMS: 86_400_000, Algorithm: "fixed_window",
		FailMode: rules.FailClosed, IsActive: true, Version: 1}
	for _, e := range edit {
		e(&r)
	}
	r.Normalize()
	return r
}

func onRoute(route string) func(*rules.Rule) { return func(r *rules.Rule) { r.Route = &route } }

func newFixture(t testing.TB, rs []rules.Rule, profiles ...profile.Profile) *fixture {
	t.Helper()
	f := &fixture{t: t, counts: map[string]int{}}
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
	secret, hash := access.NewSecret()
	f.secret = secret
	f.keys.Store(access.NewKeyring([]access.Token{{ID: 1, Name: "edge", Hash: hash,
		Scopes: []access.Scope{access.ScopeCheck}}}))
	f.handler, err = New(Deps{
		Checker: checker, Access: &f.keys, Now: clock, Next: http.NotFoundHandler(),
		Asked: func(face, result string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.counts[face+" "+result]++
		},
		Panicked: func() { f.panicked.Add(1) }, Logger: slog.New(slog.NewTextHandler(&f.logged, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(profiles) == 0 {
		profiles = []profile.Profile{shop()}
	}
	f.load(1, rs, profiles...)
	return f
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

// answered is an answer, read whole.
type answered struct {
	status int
	header http.Header
	body   string
}

// peerOf is the address that questions of tests come from.
const peerOf = "192.0.2.77:4711"

// ask puts a question; header pairs follow. An empty value removes a header.
func (f *fixture) ask(method, path string, header ...string) answered {
	f.t.Helper()
	return f.askFrom(peerOf, method, path, header...)
}

func (f *fixture) askFrom(peer, method, path string, header ...string) answered {
	f.t.Helper()
	r := httptest.NewRequestWithContext(f.t.Context(), method, path, nil)
	r.RemoteAddr = peer
	r.Header.Set("Sluice-Token", f.secret)
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] == "" {
			r.Header.Del(header[i])
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	res := w.Result()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return answered{res.StatusCode, res.Header, string(body)}
}

// forwarded asks on a face that reads X-Forwarded headers about a client's request.
func (f *fixture) forwarded(face, method, uri string, header ...string) answered {
	f.t.Helper()
	return f.ask(http.MethodGet, "/ratelimit/"+face+"/shop", append([]string{"X-Forwarded-Method", method,
		"X-Forwarded-Uri", uri, "X-Forwarded-Host", "shop.example", "X-Forwarded-For", "203.0.113.7"}, header...)...)
}

// count is how many questions of a face ended so.
func (f *fixture) count(face, result string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[face+" "+result]
}
