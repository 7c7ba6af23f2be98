package app

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"sluice/internal/access"
	"sluice/internal/config"
)

// withClientScopes are settings of a node with TLS whose certificates gateway.test and ops.test have scopes.
func withClientScopes(t *testing.T, s *secured) config.Serve {
	t.Helper()
	cfg := settings(t)
	cfg.TLSCertFile, cfg.TLSKeyFile, cfg.TLSClientCAFile = s.files.Cert, s.files.Key, s.files.CA
	cfg.TLSClientScopes = "gateway.test=check;ops.test=rules:write"
	return cfg
}

// certified is a client of a node with the certificate of a name, or without one.
type certified struct {
	t      *testing.T
	url    string
	client *http.Client
}

func (s *secured) certified(t *testing.T, n *node, name string) *certified {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: s.authority.Client(t, name)}
	t.Cleanup(transport.CloseIdleConnections)
	return &certified{t, "https" + strings.TrimPrefix(n.url, "http"), &http.Client{Transport: transport}}
}

// send makes one request and returns its status and body.
func (c *certified) send(method, path, body string, headers ...string) (status int, text string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.client.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

const checkRoute, rulesRoute = "/ratelimit/check", "/ratelimit/rules"

func TestClientScopes_HoldForChecksRulesAndMetrics(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	for _, loop := range []string{"on", "off"} {
		cfg := withClientScopes(t, s)
		cfg.Loop = loop
		n := start(t, cfg)
		gateway, ops := s.certified(t, n, "gateway.test"), s.certified(t, n, "ops.test")
		stranger, nobody := s.certified(t, n, "stranger.test"), s.certified(t, n, "")
		rule := `{"name": "r", "scope": "user", "limit": 5, "window_ms": 1000}`
		want := func(what string, c *certified, method, path, body string, want int, headers ...string) string {
			t.Helper()
			status, text := c.send(method, path, body, headers...)
			if status != want {
				t.Errorf("loop %s, %s: %d %s, want %d", loop, what, status, text, want)
			}
			return text
		}
		want("a check", gateway, "POST", checkRoute, plenty, 200)
		want("another one of the connection", gateway, "POST", checkRoute, plenty, 200)
		want("a check by a stranger", stranger, "POST", checkRoute, plenty, 401)
		want("a check by nobody", nobody, "POST", checkRoute, plenty, 401)
		want("a check without its scope", ops, "POST", checkRoute, plenty, 403)
		want("a check of another site", gateway, "POST", checkRoute, plenty, 401, "Origin", "https://evil.test")
		want("a reset", gateway, "POST", "/ratelimit/reset", plenty, 403)
		want("a rule by the gateway", gateway, "POST", rulesRoute, rule, 403)
		want("a rule by a stranger", stranger, "POST", rulesRoute, rule, 401)
		want("a rule", ops, "POST", rulesRoute, rule, 201)
		want("metrics of the gateway", gateway, "GET", "/metrics", "", 403)
		if text := want("metrics", ops, "GET", "/metrics", "", 200); strings.Contains(text, `{reader="plain"} 0`) {
			t.Errorf("loop %s: no check was read as a plain one", loop)
		}
		var history struct {
			History []struct {
				Actor struct{ Kind, Name string }
			}
		}
		text := want("the history", ops, "GET", rulesRoute+"/1/history", "", 200)
		if err := json.Unmarshal([]byte(text), &history); err != nil || len(history.History) != 1 ||
			history.History[0].Actor.Kind != "certificate" || history.History[0].Actor.Name != "ops.test" {
			t.Errorf("%v, %s", err, text)
		}

		// A token beside the certificate decides alone.
		_, secret, err := CreateToken(t.Context(), cfg.Storage, NewToken{Name: "reader", By: "test",
			Scopes: []access.Scope{access.ScopeRulesRead}}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		bearer := "Bearer " + secret
		eventually(t, "the token is known", func() bool {
			status, _ := nobody.send("GET", rulesRoute, "", "Authorization", bearer)
			return status == http.StatusOK
		})
		want("a narrow token", gateway, "POST", checkRoute, plenty, 403, "Authorization", bearer)
		want("another scope by the token", gateway, "GET", rulesRoute, "", 200, "Authorization", bearer)
		want("a wrong token", gateway, "POST", checkRoute, plenty, 401, "Authorization", "Bearer x")
		want("a check without the token", gateway, "POST", checkRoute, plenty, 200)
		n.stop()
	}
}

func TestClientScopes_ProveGatewaysWhereATokenDoes(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	cfg := withClientScopes(t, s)
	n := start(t, cfg)
	ops := s.certified(t, n, "ops.test")
	for _, profile := range []string{`{"name": "shop"}`, `{"name": "inner", "proof": {"token": false, "certificates": ["x"]}}`} {
		if status, text := ops.send("POST", "/ratelimit/profiles", profile); status != http.StatusCreated {
			t.Fatalf("create: %d %s", status, text)
		}
	}
	for name, want := range map[string]int{"gateway.test": 200, "ops.test": 401, "stranger.test": 401, "": 401} {
		c := s.certified(t, n, name)
		about := []string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/", "X-Forwarded-For", "192.0.2.1",
			"Authorization", "Bearer of the client"}
		if got, text := c.send("GET", "/ratelimit/forward/shop", "", about...); got != want {
			t.Errorf("%q: %d %s, want %d", name, got, text, want)
		}
		if got, text := c.send("GET", "/ratelimit/forward/inner", "", about...); got != http.StatusUnauthorized {
			t.Errorf("%q for a profile without tokens: %d %s", name, got, text)
		}
		if got, _ := c.send("GET", "/ratelimit/forward/shop", "", append(about, "Sluice-Token", "x")...); got != 401 {
			t.Errorf("%q with a wrong token: %d", name, got)
		}
	}
}

func TestClientScopes_HoldForCallsOfEnvoy(t *testing.T) { withLoopAndWithout(t, clientScopesOfEnvoy) }

func clientScopesOfEnvoy(t *testing.T, loop string) {
	s := newSecured(t)
	cfg := withClientScopes(t, s)
	cfg.Loop = loop
	n, addr := startGRPC(t, cfg)
	n.client.Transport = &http.Transport{TLSClientConfig: s.authority.Client(t, "")}
	for name, want := range map[string]codes.Code{"gateway.test": codes.OK, "ops.test": codes.PermissionDenied,
		"stranger.test": codes.Unauthenticated, "": codes.Unauthenticated} {
		d := dialGRPC(t, addr, s.authority.Client(t, name))
		for range 2 {
			if _, err := d.hit(t.Context(), "42"); status.Code(err) != want {
				t.Errorf("%q: %v, want %v", name, err, want)
			}
		}
		// The loop leaves compressed calls to grpc-go.
		if _, err := d.hit(t.Context(), "42", grpc.UseCompressor(gzip.Name)); status.Code(err) != want {
			t.Errorf("%q, compressed: %v, want %v", name, err, want)
		}
		for _, key := range []string{"authorization", "sluice-token"} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), key, "Bearer x")
			if _, err := d.hit(ctx, "42"); status.Code(err) != codes.Unauthenticated {
				t.Errorf("%q with a wrong token as %s: %v", name, key, err)
			}
		}
	}
}

// Certificates are credentials, so that a node of an address that others reach starts without a token.
func TestClientScopes_LetANodeStartWithoutATokenOnAnyAddress(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	cfg := withClientScopes(t, s)
	cfg.Listen = "0.0.0.0:0"
	n := start(t, cfg)
	n.url = "http://127.0.0.1" + n.url[strings.LastIndex(n.url, ":"):]
	if status, text := s.certified(t, n, "gateway.test").send("POST", checkRoute, plenty); status != http.StatusOK {
		t.Errorf("a check: %d %s", status, text)
	}
	if status, _ := s.certified(t, n, "").send("POST", checkRoute, plenty); status != http.StatusUnauthorized {
		t.Errorf("a check without a certificate: %d", status)
	}
}
