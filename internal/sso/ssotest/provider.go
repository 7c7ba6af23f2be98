package ssotest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"
)

// The one client that a Provider knows.
const (
	ClientID     = "sluice"
	ClientSecret = "a secret of the test"
)

// Provider is a provider of OpenID Connect. It is safe for concurrent use.
type Provider struct {
	// URL is its address and its issuer.
	URL    string
	server *httptest.Server

	mu      sync.Mutex
	person  map[string]any
	info    map[string]any
	spoil   func(*Token)
	instead map[string]http.HandlerFunc
	asked   map[string]int
	codes   map[string]url.Values
	keys    []*key
	serial  int
	now     func() time.Time
}

// New starts a provider with one person: ada, with the subject s-ada, in the group
// admins. Close it.
func New() *Provider {
	p := &Provider{instead: map[string]http.HandlerFunc{}, asked: map[string]int{}, codes: map[string]url.Values{},
		now: time.Now} //nolint:forbidigo // a test's provider goes by the machine's clock unless told otherwise
	p.Person("s-ada", "ada", "admins")
	p.Rotate("RS256")
	mux := http.NewServeMux()
	for path, h := range map[string]http.HandlerFunc{
		"/.well-known/openid-configuration": p.discovery, "/keys": p.jwks, "/authorize": p.authorize, "/token": p.token,
		"/userinfo": p.userInfo,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			p.mu.Lock()
			p.asked[path]++
			other := p.instead[path]
			p.mu.Unlock()
			if other != nil {
				other(w, r)
				return
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			h(w, r)
		})
	}
	p.server = httptest.NewServer(mux)
	p.URL = p.server.URL
	return p
}

// Close stops the provider.
func (p *Provider) Close() { p.server.Close() }

// Clock makes the provider go by another clock.
func (p *Provider) Clock(now func() time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = now
}

// Person is who signs in from now on.
func (p *Provider) Person(subject, name string, groups ...string) {
	list := []any{}
	for _, g := range groups {
		list = append(list, g)
	}
	p.Claims(map[string]any{"sub": subject, "preferred_username": name, "groups": list})
}

// Claims sets the claims in ID tokens of the person who signs in next.
func (p *Provider) Claims(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.person = maps.Clone(claims)
}

// Info sets the answer of the user info endpoint; nil means that there is no such endpoint, which is the default.
func (p *Provider) Info(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info = maps.Clone(claims)
}

// Spoil changes every ID token before it is signed; nil ends that.
func (p *Provider) Spoil(with func(*Token)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spoil = with
}

// Instead answers a path, such as /token, in place of the provider; nil ends that.
func (p *Provider) Instead(path string, h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instead[path] = h
}

// Asked counts the requests for a path.
func (p *Provider) Asked(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

// Approve acts like the person's browser at the address that the client gave it, and returns the address to which the
// browser is sent back.
func (p *Provider) Approve(authURL string) (string, error) {
	u, err := url.Parse(authURL)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.approve(u.Query()), nil
}

func (p *Provider) approve(q url.Values) string {
	code := secret()
	p.codes[code] = q
	return q.Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}.Encode()
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	said := map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
		"jwks_uri":                              p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256", "ES256", "HS256", "none"},
	}
	if p.info != nil {
		said["userinfo_endpoint"] = p.URL + "/userinfo"
	}
	write(w, http.StatusOK, said)
}

func (p *Provider) jwks(w http.ResponseWriter, _ *http.Request) {
	list := []any{sharedKey}
	for _, k := range p.keys {
		list = append(list, k.public)
	}
	write(w, http.StatusOK, map[string]any{"keys": list})
}

var page = template.Must(template.New("").Parse(
	`<!doctype html><html lang="en"><title>The provider</title><link rel="icon" href="data:,"><h1>The provider</h1>
<form method="post"><button id="approve">Go on as {{.}}</button></form>`))

// authorize shows a page with a button, and to press it lets the person in.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	ok := q.Get("client_id") == ClientID && q.Get("response_type") == "code" && q.Get("code_challenge_method") == "S256" &&
		q.Get("code_challenge") != "" && q.Get("state") != "" && q.Get("nonce") != "" && q.Get("redirect_uri") != ""
	switch {
	case !ok:
		http.Error(w, "not a request of the client", http.StatusBadRequest)
	case r.Method == http.MethodPost:
		http.Redirect(w, r, p.approve(q), http.StatusSeeOther)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, p.person["preferred_username"]) // the browser may have gone
	}
}

// token gives an ID token for a code, once.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, given, _ := r.BasicAuth()
	id, _ = url.QueryUnescape(id)
	given, _ = url.QueryUnescape(given)
	if id == "" {
		id, given = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	q, known := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	hash := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case id != ClientID || given != ClientSecret:
		write(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
	case !known, r.PostFormValue("grant_type") != "authorization_code",
		r.PostFormValue("redirect_uri") != q.Get("redirect_uri"),
		base64.RawURLEncoding.EncodeToString(hash[:]) != q.Get("code_challenge"):
		write(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
	default:
		write(w, http.StatusOK, map[string]any{"access_token": "access", "token_type": "Bearer", "expires_in": 60,
			"id_token": p.idToken(q)})
	}
}

func (p *Provider) userInfo(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer access" {
		write(w, http.StatusUnauthorized, map[string]any{"error": "invalid_token"})
		return
	}
	write(w, http.StatusOK, p.info)
}

// idToken says who signed in.
func (p *Provider) idToken(q url.Values) string {
	now := p.now()
	t := &Token{Header: map[string]any{"typ": "JWT"}, Claims: maps.Clone(p.person), provider: p}
	t.Sign(p.keys[len(p.keys)-1].alg)
	maps.Copy(t.Claims, map[string]any{
		"iss": p.URL, "aud": ClientID, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "nonce": q.Get("nonce"),
	})
	if q.Get("max_age") != "" {
		t.Claims["auth_time"] = now.Unix()
	}
	if p.spoil != nil {
		p.spoil(t)
	}
	return t.signed()
}

func secret() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read never returns an error
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may have gone
}
