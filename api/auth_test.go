package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/access"
)

// token makes a token of the given scopes and puts it in force beside others.
func newToken(f *fixture, expires *time.Time, scopes ...access.Scope) (string, access.Token) {
	secret, hash := access.NewSecret()
	return secret, access.Token{ID: 1, Name: "t", Hash: hash, Scopes: scopes, ExpiresAt: expires}
}

// concrete fills in the path's parameters.
func concrete(path string) string {
	return strings.NewReplacer(":id", "1", ":name", "shop").Replace(path)
}

func TestRoutes_EachWithEveryKindOfCredential(t *testing.T) {
	f := newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) {
		d.Metrics = http.HandlerFunc(func(w http.ResponseWriter,
			_ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
		})
	})
	past := time.UnixMilli(epoch - 1)
	var ring []access.Token
	mint := func(expires *time.Time, scopes ...access.Scope) string {
		secret, tok := newToken(f, expires, scopes...)
		ring = append(ring, tok)
		return "Bearer " + secret
	}
	expired := mint(&past, access.ScopeAdmin)
	each := map[access.Scope]string{}
	for _, s := range access.Scopes() {
		each[s] = mint(nil, s)
	}
	unknown := func() string { s, _ := newToken(f, nil); return "Bearer " + s }()
	revokedSecret, revoked := newToken(f, nil, access.ScopeAdmin)
	revoked.RevokedAt = &past
	f.access.Store(access.NewKeyring(append(ring, revoked)))

	for _, r := range Table() {
		t.Run(r.Method+" "+r.Path, func(t *testing.T) {
			try := func(header string) int {
				a := f.do(r.Method, concrete(r.Path), "", "Authorization", header)
				if a.status == 401 && !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
					t.Errorf("401 without WWW-Authenticate")
				}
				return a.status
			}
			for name, header := range map[string]string{
				"no": "", "garbage": "Bearer", "basic": "Basic dTpw", "unknown": unknown, "expired": expired,
				"revoked": "Bearer " + revokedSecret,
				"doubled": each[access.ScopeAdmin] + " x",
			} {
				if got := try(header); (got == 401) != (r.Scope != "") {
					t.Errorf("%s credential: status %d", name, got)
				}
			}
			for scope, header := range each {
				want := r.Scopes()
				allowed := r.Scope == "" || slices.ContainsFunc(want, access.Token{Scopes: []access.Scope{scope}}.Permits)
				a := f.do(r.Method, concrete(r.Path), "", "Authorization", header)
				if (a.status != 403) != allowed || a.status == 401 {
					t.Errorf("scope %s: status %d, want allowed %v", scope, a.status, allowed)
				}
				if !allowed && !strings.Contains(a.body, string(want[0])) {
					t.Errorf("scope %s: the refusal does not name %s: %s", scope, want[0], a.body)
				}
			}
		})
	}
}

// openRoutes are all routes that a node answers without a credential while no token exists.
var openRoutes = []string{"GET /livez", "GET /readyz", "GET /openapi.yaml", "GET /docs", "GET /docs/:name",
	"GET /problems/:name",
	"POST /ratelimit/check", "POST /ratelimit/check/batch", "POST /ratelimit/rls"}

func withMetrics(public bool) func(*decide.CheckerOptions, *Deps) {
	return func(_ *decide.CheckerOptions, d *Deps) {
		d.MetricsPublic = public
		d.Metrics = http.HandlerFunc(func(w http.ResponseWriter,
			_ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
		})
	}
}

func TestOpenMode_EveryRouteButTheOpenOnesNeedsACredential(t *testing.T) {
	for _, public := range []bool{false, true} {
		f := newFixture(t, nil, withMetrics(public))
		for _, r := range Table() {
			name := r.Method + " " + r.Path
			open := slices.Contains(openRoutes, name) || public && r.Path == "/metrics"
			if got := f.do(r.Method, concrete(r.Path), "", "Authorization", "").status; (got == 401) == open || got == 403 {
				t.Errorf("%s without a credential: status %d, want open %v", name, got, open)
			}
			if got := f.do(r.Method, concrete(r.Path), "").status; got == 401 || got == 403 {
				t.Errorf("%s with the local token: status %d", name, got)
			}
			for _, header := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Forwarded", "Via"} {
				want := 0 // some status of an answer
				switch {
				case !open:
					want = 401
				case access.OpenCall(name):
					want = 403
				}
				got := f.do(r.Method, concrete(r.Path), "", "Authorization", "", header, "127.0.0.1").status
				if want != 0 && got != want || want == 0 && (got == 401 || got == 403) {
					t.Errorf("%s with %s: status %d, want %d", name, header, got, want)
				}
			}
		}
	}
}

func TestOpenMode_ATokenServesThroughAProxy(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodGet, "/ratelimit/rules", "", "X-Forwarded-For", "203.0.113.7").want(200)
	secret, tok := newToken(f, nil, access.ScopeAdmin)
	f.access.Store(access.NewKeyring([]access.Token{tok}))
	f.do(http.MethodGet, "/ratelimit/rules", "", "X-Forwarded-For", "203.0.113.7", "Authorization",
		"Bearer "+secret).want(200)
}

func TestRoutes_WithoutLoadedTokensEveryCredentialGets503(t *testing.T) {
	f := newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) {
		d.Metrics = http.HandlerFunc(func(w http.ResponseWriter,
			_ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
		})
	})
	f.access.Store(nil)
	secret, _ := newToken(f, nil)
	for _, r := range Table() {
		for _, header := range []string{"", "Bearer " + secret, "Basic dTpw"} {
			a := f.do(r.Method, concrete(r.Path), "", "Authorization", header)
			if r.Scope == "" {
				continue
			}
			if a.status != 503 || !strings.Contains(a.body, "API tokens") || a.header.Get("Retry-After") == "" ||
				a.header.Get("WWW-Authenticate") != "" {
				t.Errorf("%s %s with %q: status %d, headers %v, %s", r.Method, r.Path, header, a.status, a.header, a.body)
			}
		}
	}
}

func TestRefund_WithoutARequestNeedsTheScopeCounters(t *testing.T) {
	f := newFixture(t, nil)
	var ring []access.Token
	mint := func(scopes ...access.Scope) string {
		secret, tok := newToken(f, nil, scopes...)
		ring = append(ring, tok)
		return "Bearer " + secret
	}
	check, counters, both, admin := mint(access.ScopeCheck), mint(access.ScopeCounters),
		mint(access.ScopeCheck, access.ScopeCounters), mint(access.ScopeAdmin)
	f.access.Store(access.NewKeyring(ring))
	const bare, named = `{"key":"k","limit":9,"window_ms":1000}`,
		`{"key":"k","limit":9,"window_ms":1000,"request_id":"r1"}`
	tries := []struct {
		path, body, credential string
		need                   access.Scope // "" is allowed
	}{
		{"refund", bare, check, access.ScopeCounters},
		{"refund", bare, counters, ""},
		{"refund", bare, both, ""},
		{"refund", bare, admin, ""},
		{"refund", named, check, ""},
		{"refund", named, counters, access.ScopeCheck},
		{"refund", named, both, ""},
		{"refund", named, admin, ""},
		{"reset", bare, check, access.ScopeCounters},
		{"reset", named, check, access.ScopeCounters},
		{"reset", bare, counters, ""},
		{"reset", bare, admin, ""},
		{"check", bare, counters, access.ScopeCheck},
	}
	for _, try := range tries {
		a := f.do(http.MethodPost, "/ratelimit/"+try.path, try.body, "Authorization", try.credential)
		if (a.status == 200) != (try.need == "") {
			t.Errorf("%s %s: status %d, want need of %q", try.path, try.body, a.status, try.need)
		}
		if try.need == "" {
			continue
		}
		challenge := `Bearer error="insufficient_scope", scope="` + string(try.need) + `"`
		if a.status != 403 || !strings.Contains(a.body, "scope "+string(try.need)+".") ||
			a.header.Get("WWW-Authenticate") != challenge {
			t.Errorf("%s %s: %d %q %s", try.path, try.body, a.status, a.header.Get("WWW-Authenticate"), a.body)
		}
	}
}

func TestRoutes_EveryRowIsProtectedOrKnownToBePublic(t *testing.T) {
	public := map[string]bool{"/livez": true, "/readyz": true, "/openapi.yaml": true, "/docs": true, "/docs/:name": true,
		"/problems/:name": true}
	for _, r := range Table() {
		if (r.Scope == "") != public[r.Path] {
			t.Errorf("%s %s has scope %q", r.Method, r.Path, r.Scope)
		}
	}
}

func TestOpenMode_ServesLoopbackNamesOnly(t *testing.T) {
	f := newFixture(t, nil)
	f.token = ""
	hosts := map[string]bool{
		"localhost": true, "localhost:8080": true, "LOCALHOST:1": true, "localhost.": true, "127.0.0.1": true,
		"127.9.8.7:80": true, "[::1]": true, "[::1]:8080": true,
		"": false, "evil.example": false, "localhost.evil.example": false, "evil.localhost": false, "192.0.2.1": false,
		"0.0.0.0:8080":           false,
		"127.0.0.1.evil.example": false, "localhost:8080@evil.example": false, "[::1%25lo]": false, "127.1": false,
	}
	for host, allowed := range hosts {
		f.host = host
		got := f.do(http.MethodPost, "/ratelimit/check", oneCheck).status
		if (got == 200) != allowed || !allowed && got != 403 {
			t.Errorf("host %q: status %d", host, got)
		}
	}
}

func TestOpenMode_RefusesOtherWebSites(t *testing.T) {
	f := newFixture(t, nil)
	f.token = ""
	f.do(http.MethodPost, "/ratelimit/check", oneCheck, "Sec-Fetch-Site", "cross-site").want(403)
	f.do(http.MethodPost, "/ratelimit/check", oneCheck, "Origin", "https://evil.example").want(403)
	for _, site := range []string{"same-site", "none"} {
		f.do(http.MethodGet, "/ratelimit/deferred/1?max=1", "", "Sec-Fetch-Site", site).want(401)
	}
	f.do(http.MethodPost, "/ratelimit/check", oneCheck, "Content-Type", "text/plain").want(415)
	f.do(http.MethodPost, "/ratelimit/check", oneCheck, "Sec-Fetch-Site", "same-origin").want(200)
}

func TestOpenMode_EndsWithTheFirstToken(t *testing.T) {
	f := newFixture(t, nil)
	local := f.token
	f.do(http.MethodGet, "/ratelimit/rules", "").want(200)
	f.token = ""
	f.do(http.MethodPost, "/ratelimit/check", oneCheck).want(200)
	f.do(http.MethodPost, "/ratelimit/check", oneCheck, "Authorization", "Bearer slk_wrong").want(401)
	secret, tok := newToken(f, nil, access.ScopeAdmin)
	revoked := time.UnixMilli(epoch)
	for _, revokedAt := range []*time.Time{nil, &revoked} {
		tok.RevokedAt = revokedAt
		_, hash := access.NewSecret()
		f.access.Store(access.NewKeyring([]access.Token{tok}).WithLocal(hash).WithLocal(access.Hash(local)))
		f.do(http.MethodPost, "/ratelimit/check", oneCheck).want(401)
		f.do(http.MethodGet, "/ratelimit/rules", "", "Authorization", "Bearer "+local).want(401)
		if revokedAt == nil {
			f.do(http.MethodGet, "/ratelimit/rules", "", "Authorization", "bearer "+secret).want(200)
		}
	}
}

const oneCheck = `{"key":"k","limit":9,"window_ms":1000}`

func TestAccess_ClosedOffLoopback(t *testing.T) {
	f := newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) { d.OpenMode = false })
	f.token = ""
	f.do(http.MethodPost, "/ratelimit/check", oneCheck).want(401)
}

func TestMetrics_PublicOnlyWhenSet(t *testing.T) {
	for _, public := range []bool{false, true} {
		f := newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) {
			d.OpenMode, d.MetricsPublic = false, public
			d.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			})
		})
		if got := f.do(http.MethodGet, "/metrics", "", "Authorization", "").status; (got == 200) != public {
			t.Errorf("public %v: status %d", public, got)
		}
	}
}

func TestWrites_CarryTheTokenAsActor(t *testing.T) {
	f := newFixture(t, nil)
	const body = `{"name":"a","scope":"user","limit":1,"window_ms":1000}`
	f.do(http.MethodPost, "/ratelimit/rules", body).want(201)
	if a := f.book.revisions[0].Actor; a.Kind != "system" || a.Name != access.LocalName {
		t.Errorf("actor of the local token: %+v", a)
	}
	secret, tok := newToken(f, nil, access.ScopeRulesWrite)
	tok.Name = "ci"
	f.access.Store(access.NewKeyring([]access.Token{tok}))
	f.token = secret
	f.do(http.MethodDelete, "/ratelimit/rules/1", "").want(204)
	if a := f.book.revisions[0].Actor; a.Kind != "token" || a.Name != "ci" {
		t.Errorf("actor: %+v", a)
	}
}
