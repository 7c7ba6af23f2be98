package sso_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/access"
	"sluice/internal/sso"
	"sluice/internal/sso/ssotest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const back = "http://127.0.0.1:1/console/sso/callback"

// clock is moved by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// pair is a client and its provider.
type pair struct {
	*ssotest.Provider
	client *sso.Provider
	clock  *clock
}

func newPair(t *testing.T, edit func(*sso.Options)) *pair {
	t.Helper()
	p := &pair{Provider: ssotest.New(), clock: &clock{now: time.Unix(1_800_000_000, 0)}}
	t.Cleanup(p.Close)
	p.Clock(p.clock.Now)
	o := sso.Options{
		Issuer: p.URL, ClientID: ssotest.ClientID, ClientSecret: ssotest.ClientSecret, RedirectURL: back,
		Scopes: []string{"profile"}, Claim: "groups",
		Groups: map[access.Role][]string{access.RoleAdmin: {"admins"}, access.RoleEditor: {"editors", "on-call"},
			access.RoleViewer: {"staff"}}, Now: p.clock.Now,
	}
	if edit != nil {
		edit(&o)
	}
	p.client = sso.New(o)
	return p
}

// code goes to the provider and comes back with a code.
func (p *pair) code(t *testing.T, c access.Challenge) string {
	t.Helper()
	to, err := p.client.AuthURL(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	from, err := p.Approve(to)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(from)
	if err != nil || !strings.HasPrefix(from, back) || u.Query().Get("state") != c.State {
		t.Fatalf("sent back to %s, %v", from, err)
	}
	return u.Query().Get("code")
}

// signIn goes the whole way.
func (p *pair) signIn(t *testing.T) (access.Identity, error) {
	t.Helper()
	c := access.NewChallenge(false)
	return p.client.Exchange(t.Context(), p.code(t, c), c)
}

func TestAuthURL_BindsTheAttempt(t *testing.T) {
	p := newPair(t, nil)
	for _, fresh := range []bool{false, true} {
		c := access.NewChallenge(fresh)
		to, err := p.client.AuthURL(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		u, _ := url.Parse(to)
		q := u.Query()
		for name, want := range map[string]string{
			"state": c.State, "nonce": c.Nonce, "code_challenge_method": "S256", "response_type": "code",
			"client_id":    ssotest.ClientID,
			"redirect_uri": back, "scope": "openid profile",
		} {
			if q.Get(name) != want {
				t.Errorf("%s is %q, want %q", name, q.Get(name), want)
			}
		}
		if strings.Contains(to, c.Verifier) || strings.Contains(to, url.QueryEscape(ssotest.ClientSecret)) ||
			q.Get("code_challenge") == "" {
			t.Errorf("a secret travels through the browser: %s", to)
		}
		if (q.Get("prompt") == "login" && q.Get("max_age") == "0") != fresh {
			t.Errorf("fresh %v: prompt %q, max_age %q", fresh, q.Get("prompt"), q.Get("max_age"))
		}
	}
}

func TestExchange_SaysWhoAndWithWhichRole(t *testing.T) {
	p := newPair(t, nil)
	for groups, want := range map[string]access.Role{
		"admins": access.RoleAdmin, "staff,admins,x": access.RoleAdmin, "on-call": access.RoleEditor,
		"staff,editors": access.RoleEditor,
		"staff":         access.RoleViewer, "Admins,ADMINS,admins ": "", "": "", "viewer,admin,editor": "",
	} {
		p.Person("s-1", "Ada L", strings.Split(groups, ",")...)
		id, err := p.signIn(t)
		if err != nil || id.Role != want || id.Subject != "s-1" || id.Issuer != p.URL || id.Name != "ada-l" ||
			!id.AuthTime.IsZero() {
			t.Errorf("%q: %+v, %v", groups, id, err)
		}
	}
	c := access.NewChallenge(true)
	if id, err := p.client.Exchange(t.Context(), p.code(t, c), c); err != nil || !id.AuthTime.Equal(p.clock.Now()) {
		t.Errorf("a fresh one: %+v, %v", id, err)
	}
	if n := p.Asked("/.well-known/openid-configuration"); n != 1 {
		t.Errorf("asked %d times about itself", n)
	}
	if n := p.Asked("/keys"); n != 1 {
		t.Errorf("asked %d times for its keys", n)
	}
}

func TestExchange_FollowsNewKeys(t *testing.T) {
	p := newPair(t, nil)
	for _, alg := range []string{"RS256", "ES256", "ES256", "RS256"} {
		p.Rotate(alg)
		_, err := p.signIn(t)
		// go-oidc takes a request for keys that has ended, before the rotation, for its own until the goroutine of that
		// request runs again.
		for again := 0; err != nil && again < 50; again++ {
			_, err = p.signIn(t)
		}
		if err != nil {
			t.Errorf("%s: %v", alg, err)
		}
	}
}

func TestExchange_RefusesWhatProvesNothing(t *testing.T) {
	p := newPair(t, nil)
	for name, spoil := range map[string]func(*ssotest.Token){
		"another nonce":               func(t *ssotest.Token) { t.Claims["nonce"] = "other" },
		"no nonce":                    func(t *ssotest.Token) { delete(t.Claims, "nonce") },
		"another audience":            func(t *ssotest.Token) { t.Claims["aud"] = "other" },
		"several, no party":           func(t *ssotest.Token) { t.Claims["aud"] = []string{ssotest.ClientID, "other"} },
		"another party":               func(t *ssotest.Token) { t.Claims["azp"] = "other" },
		"an empty party":              func(t *ssotest.Token) { t.Claims["azp"] = "" },
		"another issuer":              func(t *ssotest.Token) { t.Claims["iss"] = "https://evil.example" },
		"the issuer with a slash":     func(t *ssotest.Token) { t.Claims["iss"] = t.Claims["iss"].(string) + "/" },
		"expired":                     func(t *ssotest.Token) { t.Claims["exp"] = 1_799_999_999 },
		"no expiry":                   func(t *ssotest.Token) { delete(t.Claims, "exp") },
		"not yet":                     func(t *ssotest.Token) { t.Claims["nbf"] = 1_800_009_999 },
		"unsigned":                    func(t *ssotest.Token) { t.Sign("none") },
		"signed with a known secret":  func(t *ssotest.Token) { t.Sign("HS256") },
		"signed by someone else":      func(t *ssotest.Token) { t.Forge() },
		"by a key nobody knows":       func(t *ssotest.Token) { t.Header["kid"] = "other"; t.Forge() },
		"nobody":                      func(t *ssotest.Token) { delete(t.Claims, "sub") },
		"a subject of many bytes":     func(t *ssotest.Token) { t.Claims["sub"] = strings.Repeat("s", 256) },
		"a subject that is no text":   func(t *ssotest.Token) { t.Claims["sub"] = "a\x00b" },
		"a token of many bytes":       func(t *ssotest.Token) { t.Claims["more"] = strings.Repeat("x", 70_000) },
		"a claim of the wrong type":   func(t *ssotest.Token) { t.Claims["azp"] = 7 },
		"an algorithm that is hidden": func(t *ssotest.Token) { t.Sign("none"); t.Header["alg"] = "NONE" },
	} {
		p.Spoil(spoil)
		if id, err := p.signIn(t); !errors.Is(err, access.ErrIdentity) || id.Subject != "" || id.Role != "" {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
	}
	p.Spoil(func(t *ssotest.Token) {
		t.Claims["aud"], t.Claims["azp"] = []string{"other", ssotest.ClientID}, ssotest.ClientID
	})
	if _, err := p.signIn(t); err != nil {
		t.Errorf("several clients, this one the party: %v", err)
	}
}

func TestExchange_ACodeIsGoodOnceAndForOneBrowser(t *testing.T) {
	p := newPair(t, nil)
	c, other := access.NewChallenge(false), access.NewChallenge(false)
	code := p.code(t, c)
	if _, err := p.client.Exchange(t.Context(), code, c); err != nil {
		t.Fatal(err)
	}
	if _, err := p.client.Exchange(t.Context(), code, c); !errors.Is(err, access.ErrIdentity) {
		t.Errorf("again: %v", err)
	}
	mixed := other
	mixed.Nonce = c.Nonce
	if _, err := p.client.Exchange(t.Context(), p.code(t, c), mixed); !errors.Is(err, access.ErrIdentity) {
		t.Errorf("with another verifier: %v", err)
	}
	mixed = c
	mixed.Nonce = other.Nonce
	if _, err := p.client.Exchange(t.Context(), p.code(t, c), mixed); !errors.Is(err, access.ErrIdentity) {
		t.Errorf("with another nonce: %v", err)
	}
	mixed.Nonce = ""
	if _, err := p.client.Exchange(t.Context(), p.code(t, c), mixed); !errors.Is(err, access.ErrIdentity) {
		t.Errorf("with no nonce: %v", err)
	}
}

func TestExchange_AWrongSecretIsRefused(t *testing.T) {
	p := newPair(t, func(o *sso.Options) { o.ClientSecret = "wrong" })
	if _, err := p.signIn(t); !errors.Is(err, access.ErrIdentity) || strings.Contains(err.Error(), "wrong") {
		t.Errorf("got %v", err)
	}
}

func TestProvider_AwayIsAnErrorOfItsOwnAndPasses(t *testing.T) {
	huge := func(w http.ResponseWriter, _ *http.Request) {
		for range 1 << 10 {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	}
	failing := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	elsewhere := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
	}
	nonsense := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }
	for name, answer := range map[string]http.HandlerFunc{"500": failing, "a megabyte": huge, "a redirect": elsewhere,
		"nonsense": nonsense} {
		for _, path := range []string{"/.well-known/openid-configuration", "/token", "/keys"} {
			p := newPair(t, nil)
			p.Instead(path, answer)
			c := access.NewChallenge(false)
			var code string
			_, err := p.client.AuthURL(t.Context(), c)
			if path != "/.well-known/openid-configuration" {
				if err != nil {
					t.Fatal(err)
				}
				code = p.code(t, c)
				_, err = p.client.Exchange(t.Context(), code, c)
			}
			want := access.ErrProviderUnavailable
			if path == "/keys" && (name == "a megabyte" || name == "nonsense") {
				want = access.ErrIdentity // an answer, and nothing in it that would prove anything
			}
			if !errors.Is(err, want) || len(err.Error()) > 1000 {
				t.Errorf("%s at %s: %v", name, path, err)
			}
			p.Instead(path, nil)
			p.clock.Add(5 * time.Second)
			_, err = p.signIn(t)
			// go-oidc 3.21 hands out the result of a fetch of keys until the goroutine of the fetch has forgotten it, which
			// may be after the caller went on.
			for range 10 {
				if !errors.Is(err, access.ErrIdentity) {
					break
				}
				_, err = p.signIn(t)
			}
			if err != nil {
				t.Errorf("%s at %s, over: %v", name, path, err)
			}
		}
	}
}

// itself answers what the provider says of itself, and so many bytes more.
func itself(w http.ResponseWriter, p *pair, more int) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(strings.ReplaceAll(
		`{"issuer":"$","authorization_endpoint":"$/authorize","token_endpoint":"$/token","jwks_uri":"$/keys","more":"`, "$",
		p.URL) +
		strings.Repeat("x", more) + `"}`))
}

func TestProvider_IsNotFollowedElsewhere(t *testing.T) {
	p := newPair(t, nil)
	p.Instead("/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "" {
			http.Redirect(w, r, "?elsewhere", http.StatusTemporaryRedirect)
			return
		}
		itself(w, p, 0)
	})
	if _, err := p.client.AuthURL(t.Context(), access.NewChallenge(false)); !errors.Is(err,
		access.ErrProviderUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestProvider_AnAnswerHasABound(t *testing.T) {
	for size, want := range map[int]error{1 << 10: nil, 1 << 20: access.ErrProviderUnavailable} {
		p := newPair(t, nil)
		p.Instead("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) { itself(w, p, size) })
		if _, err := p.client.AuthURL(t.Context(), access.NewChallenge(false)); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestProvider_IsNotAskedByACrowdWhileItIsAway(t *testing.T) {
	p := newPair(t, nil)
	p.Instead("/.well-known/openid-configuration",
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	for range 10 {
		if _, err := p.client.AuthURL(t.Context(), access.NewChallenge(false)); !errors.Is(err,
			access.ErrProviderUnavailable) {
			t.Fatal(err)
		}
	}
	if n := p.Asked("/.well-known/openid-configuration"); n != 1 {
		t.Errorf("asked %d times", n)
	}
	p.Instead("/.well-known/openid-configuration", nil)
	p.clock.Add(5 * time.Second)
	if _, err := p.signIn(t); err != nil {
		t.Errorf("back: %v", err)
	}
	p.Instead("/.well-known/openid-configuration",
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	p.clock.Add(2 * time.Hour)
	if _, err := p.signIn(t); err != nil {
		t.Errorf("what it said two hours ago is forgotten: %v", err)
	}
}

func TestProvider_ASlowOneIsGivenUpWithTheCaller(t *testing.T) {
	p := newPair(t, nil)
	arrived, done := make(chan struct{}), make(chan struct{})
	p.Instead("/.well-known/openid-configuration", func(http.ResponseWriter, *http.Request) { close(arrived); <-done })
	defer close(done)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if _, err := p.client.AuthURL(ctx, access.NewChallenge(false)); !errors.Is(err, access.ErrProviderUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestProvider_LeadsNowhereUnsafe(t *testing.T) {
	for _, said := range []string{
		`"authorization_endpoint": "javascript:alert(1)", "token_endpoint": "$/token", "jwks_uri": "$/keys"`,
		`"authorization_endpoint": "http://id.example.com/auth", "token_endpoint": "$/token", "jwks_uri": "$/keys"`,
		`"authorization_endpoint": "$/authorize", "token_endpoint": "http://id.example.com/token", "jwks_uri": "$/keys"`,
		`"authorization_endpoint": "$/authorize", "token_endpoint": "$/token", "jwks_uri": "file:///etc/passwd"`,
		`"authorization_endpoint": "$/authorize"`,
		`"issuer": "https://evil.example", "authorization_endpoint": "$/authorize", "token_endpoint": "$/token", "jwks_uri": "$/keys"`,
	} {
		p := newPair(t, nil)
		p.Instead("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(strings.ReplaceAll(`{"issuer": "$", `+said+"}", "$", p.URL)))
		})
		if to, err := p.client.AuthURL(t.Context(), access.NewChallenge(false)); !errors.Is(err,
			access.ErrProviderUnavailable) {
			t.Errorf("%s: leads to %q, %v", said, to, err)
		}
	}
	p := sso.New(sso.Options{Issuer: "http://id.example.com", Now: time.Now})
	if _, err := p.AuthURL(t.Context(), access.NewChallenge(false)); !errors.Is(err, access.ErrProviderUnavailable) ||
		!strings.Contains(err.Error(), "https") {
		t.Errorf("plain http: %v", err)
	}
}

func TestExchange_UsesTheSecretInForce(t *testing.T) {
	secret := "the next one"
	p := newPair(t, func(o *sso.Options) { o.CurrentSecret = func() string { return secret } })
	p.Person("s-1", "Ada", "staff")
	if _, err := p.signIn(t); !errors.Is(err, access.ErrIdentity) {
		t.Errorf("with another secret: %v", err)
	}
	secret = ssotest.ClientSecret
	if _, err := p.signIn(t); err != nil {
		t.Errorf("with the secret in force: %v", err)
	}
}
