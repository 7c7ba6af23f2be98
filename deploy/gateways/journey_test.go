package gateways_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// example is a gateway that can be run here. start places its files and runs it.
type example struct {
	name string
	// asks is the beginning of the path of its questions.
	asks string
	// ownBody says that the gateway cannot pass on the body of a denial and writes its own.
	ownBody bool
	// copies says that all headers of the client are in its questions.
	copies bool
	// bad matches lines of its log that must not appear while Sluice answers.
	bad   string
	start func(t *testing.T, s *setup) *gateway
}

var examples = []example{
	{name: "nginx", asks: "/ratelimit/nginx/shop", ownBody: true, bad: "[error]", start: startNginx("nginx.conf")},
	{name: "njs", asks: "/ratelimit/nginx/shop", bad: "[error]", start: startNginx("nginx-njs.conf")},
	{name: "caddy", asks: "/ratelimit/forward/shop", copies: true, bad: `"level":"error"`, start: startCaddy},
	{name: "haproxy", asks: "/ratelimit/forward/shop", bad: "lert", start: startHAProxy},
}

// The gateways that can be had, with the files of the examples.
func TestGateways(t *testing.T) {
	p := build(t)
	for _, e := range examples {
		t.Run(e.name+" asks", func(t *testing.T) { t.Parallel(); e.asksRightly(t, p) })
		t.Run(e.name+" sends figures once", func(t *testing.T) { t.Parallel(); e.sendsFiguresOnce(t, p) })
		t.Run(e.name+" refuses bad requests", func(t *testing.T) { t.Parallel(); e.badRequests(t, p) })
		t.Run(e.name+" limits and fails open", func(t *testing.T) { t.Parallel(); e.journey(t, p) })
		t.Run(e.name+" asks the other node", func(t *testing.T) { t.Parallel(); e.nodeKilled(t, p) })
		t.Run(e.name+" passes without Redis", func(t *testing.T) { t.Parallel(); e.redisAway(t, p) })
	}
	t.Run("a rolling restart behind nginx fails no request", func(t *testing.T) { t.Parallel(); rollingRestart(t, p) })
	t.Run("requests that other gateways make are answered", func(t *testing.T) { t.Parallel(); recorded(t, p) })
}

// asksRightly looks at the questions of a gateway, and at what it makes of the answers.
func (e *example) asksRightly(t *testing.T, p *product) {
	l, a := startListener(t), startApp(t)
	g := e.start(t, &setup{product: p, nodes: []string{l.addr}, app: a.addr})
	got := g.send(http.MethodPost, "/users/17?x=1&profile=other", strings.NewReader("hello"),
		"Content-Type", "text/plain", "X-Api-Key", "k1",
		// A client may try to pass for somebody else.
		"X-Forwarded-For", "192.0.2.9", "X-Forwarded-Uri", "/other", "X-Forwarded-Method", "OPTIONS",
		"Sluice-Token", "slk_forged", "Sluice-Timeout-Ms", "1", "Cookie", "session=secret")
	if want := "POST /users/17?x=1&profile=other hello"; got.status != http.StatusOK || got.body != want {
		t.Fatalf("the client got %d %q, want %q", got.status, got.body, want)
	}
	if got.header.Get("RateLimit") == "" || got.header.Get("X-App") == "" {
		t.Errorf("an allowed request got %v", got.header)
	}
	wantFigures(t, "an allowed request", got, figures)
	q := <-l.questions
	if q.method != http.MethodGet || q.uri != e.asks || q.body != "" {
		t.Errorf("the question is %s %s with the body %q, want GET %s without", q.method, q.uri, q.body, e.asks)
	}
	for name, want := range map[string]string{
		"Sluice-Token": p.token, "Sluice-Timeout-Ms": "100", "X-Api-Key": "k1", "X-Forwarded-Method": http.MethodPost,
		"X-Forwarded-Uri": "/users/17?x=1&profile=other", "X-Forwarded-For": "127.0.0.1",
		"X-Forwarded-Host": strings.TrimPrefix(g.url, "http://"),
	} {
		if values := q.header.Values(name); len(values) != 1 || values[0] != want {
			t.Errorf("the question has %s: %q, want %q", name, values, want)
		}
	}
	if cookie := q.header.Get("Cookie"); cookie != "" && !e.copies {
		t.Errorf("the question has the client's cookie %q", cookie)
	}
	a.take()
	for _, denied := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		got := g.send(http.MethodPost, "/a", strings.NewReader("hello"), "X-Api-Key", strconv.Itoa(denied))
		if got.status != denied || got.header.Get("Retry-After") != "60" || got.header.Get("RateLimit") == "" {
			t.Errorf("a denial with %d: the client got %d %v", denied, got.status, got.header)
		}
		wantFigures(t, "a denied request", got, figures)
		if e.ownBody {
			wantMessage(t, got, "Please try again in 60 seconds.")
		}
		if !e.ownBody && got.body != `{"title":"from the listener"}` {
			t.Errorf("a denial with %d: the client got the body %s", denied, got.body)
		}
	}
	// Errors of the configuration are found at the first request.
	if got := g.send(http.MethodGet, "/a", http.NoBody, "X-Api-Key", "401"); got.status != http.StatusInternalServerError {
		t.Errorf("a refused question: the client got %d %s", got.status, got.body)
	}
	if seen := a.take(); len(seen) != 0 {
		t.Errorf("the application got %q", seen)
	}
}

// journey is what a reader tries: five requests pass, the sixth does not, and without Sluice
// all do.
func (e *example) journey(t *testing.T, p *product) {
	n, a := p.serve(t, freeAddr(t)), startApp(t)
	g := e.start(t, &setup{product: p, nodes: []string{n.addr}, app: a.addr})
	for i := range 5 {
		got := g.send(http.MethodGet, "/users/17?x=1", http.NoBody, "X-Api-Key", "k1")
		if left := fmt.Sprintf(`"shop-key";r=%d`, 4-i); got.status != http.StatusOK ||
			!strings.Contains(got.header.Get("RateLimit"), left) {
			t.Errorf("request %d: the client got %d %v", i, got.status, got.header)
		}
		wantFigures(t, "an allowed request", got, remaining(4-i))
	}
	got := g.send(http.MethodPost, "/files/a", strings.NewReader("hello"), "X-Api-Key", "k1")
	wantDenial(t, got)
	if seen := a.take(); len(seen) != 5 {
		t.Errorf("the application got %d requests, want 5: %q", len(seen), seen)
	}
	// A body of unknown length, from a client whose key has units left.
	chunked := struct{ io.Reader }{strings.NewReader("hello")}
	if got := g.send(http.MethodPost, "/files/a", chunked, "X-Api-Key", "k2"); got.body != "POST /files/a hello" {
		t.Errorf("a chunked request got %d %s", got.status, got.body)
	}
	if log := g.Log(); strings.Contains(log, e.bad) {
		t.Errorf("it logged errors:\n%s", log)
	}
	a.take()

	n.Pause()
	passes(t, g, a, 1)
	n.Kill()
	passes(t, g, a, 200)
}

// remaining is what a client is sent that has so many units left of its five. When they return is not known.
func remaining(units int) map[string]string {
	return map[string]string{
		"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": strconv.Itoa(units), "X-RateLimit-Reset": "",
	}
}

// wantFigures checks the customary headers of a response. "" stands for any whole number above 0.
func wantFigures(t *testing.T, what string, got response, want map[string]string) {
	t.Helper()
	for name, value := range want {
		values := got.header.Values(name)
		if value == "" && len(values) == 1 {
			if n, err := strconv.Atoi(values[0]); err == nil && n > 0 {
				continue
			}
		}
		if len(values) != 1 || values[0] != value {
			t.Errorf("%s got %s: %q, want %q", what, name, values, value)
		}
	}
}

// wantMessage wants a body with a message for people that ends with the wait.
func wantMessage(t *testing.T, got response, wait string) {
	t.Helper()
	var problem struct{ Error, Message string }
	if err := json.Unmarshal([]byte(got.body), &problem); err != nil || problem.Error == "" ||
		!strings.HasSuffix(problem.Message, " "+wait) {
		t.Errorf("a denied request got the body %s, %v, want a message with %q", got.body, err, wait)
	}
}

// wantDenial checks what a denied client gets.
func wantDenial(t *testing.T, got response) {
	t.Helper()
	after, err := strconv.Atoi(got.header.Get("Retry-After"))
	if got.status != http.StatusTooManyRequests || err != nil || after < 1 || after > 120 {
		t.Errorf("a denied request got %d, Retry-After %q", got.status, got.header.Get("Retry-After"))
	}
	if !strings.Contains(got.header.Get("RateLimit"), `"shop-key";r=0`) ||
		!strings.Contains(got.header.Get("RateLimit-Policy"), `"shop-key";q=5;w=60`) ||
		got.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("a denied request got %v", got.header)
	}
	wantFigures(t, "a denied request", got, remaining(0))
	wantMessage(t, got, fmt.Sprintf("Please try again in %d seconds.", after))
	var problem struct {
		Type   string
		Status int
		Error  string
	}
	if err := json.Unmarshal([]byte(got.body), &problem); err != nil || problem.Error != "rate_limit_exceeded" ||
		problem.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" || problem.Status != 429 {
		t.Errorf("a denied request got the body %s, %v", got.body, err)
	}
}

// passes wants that many requests to reach the application with their bodies.
func passes(t *testing.T, g *gateway, a *app, requests int) {
	t.Helper()
	failed := 0
	for i := range requests {
		want := fmt.Sprintf("POST /files/a?n=%d hello", i)
		got := g.send(http.MethodPost, fmt.Sprintf("/files/a?n=%d", i), strings.NewReader("hello"), "X-Api-Key", "k1")
		if got.status != http.StatusOK || got.body != want {
			failed++
			t.Logf("the client got %d %s", got.status, got.body)
		}
	}
	if seen := a.take(); failed > 0 || len(seen) != requests {
		t.Errorf("without Sluice %d of %d requests failed, and the application got %d", failed, requests, len(seen))
	}
}
