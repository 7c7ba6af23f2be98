package gateways_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(m)) }

// Addresses in the files of the examples. The tests replace them by their own.
const (
	clientsAddr   = "127.0.0.1:8000"
	sluiceAddr    = "127.0.0.1:8080"
	questionsAddr = "127.0.0.1:8081" // inside HAProxy
	appAddr       = "127.0.0.1:9000"
)

// patience has the timeouts of the examples, which a machine that runs tests may not meet, and
// those of the tests. No text contains another one.
var patience = map[string]string{
	" 100ms": " 2s", "timeout = 200": "timeout = 4000",
	"proxy_next_upstream_timeout 75ms": "proxy_next_upstream_timeout 1s",
}

// product is the program, and the data directory of a node that has a token and the rules
// and profiles of shop.yaml.
type product struct {
	bin, data, token string
}

// build builds the program and makes the data directory.
func build(t *testing.T) *product {
	t.Helper()
	p := &product{bin: testenv.Sluice(t), data: filepath.Join(t.TempDir(), "data")}
	p.token = p.run(t, "token", "create", "gateway", "--scopes", "check,rules:write", "--data-dir", p.data)
	t.Run("prepare", func(t *testing.T) { // the node ends with it
		n := p.serveOn(t, p.data, testenv.FreeAddr(t))
		shop, err := os.ReadFile("shop.yaml")
		if err != nil {
			t.Fatal(err)
		}
		// All requests of the tests come from one address.
		shop = bytes.Replace(shop, []byte("limit: 600\n"), []byte("limit: 1000000\n"), 1)
		file := filepath.Join(t.TempDir(), "shop.yaml")
		if err := os.WriteFile(file, shop, 0o600); err != nil {
			t.Fatal(err)
		}
		p.run(t, "rules", "apply", "--file", file, "--server", "http://"+n.addr)
	})
	if t.Failed() {
		t.FailNow()
	}
	return p
}

// run runs one command of the program and returns what it writes to standard output.
func (p *product) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.bin, args...)
	cmd.Env = append(os.Environ(), "SLUICE_TOKEN="+p.token)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sluice %s: %v\n%s%s", args, err, out, &errs)
	}
	return strings.TrimSpace(string(out))
}

// node is one running node.
type node struct {
	*testenv.Running
	addr string
}

// serve starts a node with the rules of shop.yaml. Its counters are in its memory. env is NAME=value.
func (p *product) serve(t *testing.T, addr string, env ...string) *node {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	if err := errors.Join(os.MkdirAll(data, 0o700), os.CopyFS(data, os.DirFS(p.data))); err != nil {
		t.Fatal(err)
	}
	return p.serveOn(t, data, addr, env...)
}

func (p *product) serveOn(t *testing.T, data, addr string, env ...string) *node {
	t.Helper()
	return &node{addr: addr, Running: testenv.Start(t, &testenv.Program{
		Path: p.bin, Addr: addr,
		Args: []string{"serve", "--no-console", "--listen", addr, "--data-dir", data, "--metrics-public"},
		// The test's machine may be slow.
		Env: append([]string{"SLUICE_STORE_TIMEOUT=5s", "SLUICE_DRAIN_DELAY=300ms"}, env...),
	})}
}

// asked reports whether the node has answered a question, which a series of its metrics counts.
func (n *node) asked(t *testing.T, series string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.addr+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, value, ok := bytes.Cut(b, []byte("\n"+series+" "))
	return ok && !bytes.HasPrefix(value, []byte("0\n"))
}

// app is the application behind a gateway. It answers every request with a line that says
// what arrived.
type app struct {
	addr string
	mu   sync.Mutex
	seen []string
}

func startApp(t *testing.T) *app {
	t.Helper()
	a := &app{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		line := fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, body)
		a.mu.Lock()
		a.seen = append(a.seen, line)
		a.mu.Unlock()
		w.Header().Set("X-App", "yes")
		_, _ = io.WriteString(w, line)
	}))
	t.Cleanup(s.Close)
	a.addr = s.Listener.Addr().String()
	return a
}

// take returns the requests since the last call.
func (a *app) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := a.seen
	a.seen = nil
	return seen
}

// question is what a gateway asked.
type question struct {
	method, uri, body string
	header            http.Header
}

// figures are the customary headers of the listener's answers.
var figures = map[string]string{
	"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "4", "X-RateLimit-Reset": "1795259999",
}

// listener stands in for Sluice and keeps what it is asked. It denies the keys 429 and 503
// with that status, and refuses the key 401.
type listener struct {
	addr      string
	questions chan question
}

func startListener(t *testing.T) *listener {
	t.Helper()
	l := &listener{questions: make(chan question, 100)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			return
		}
		body, _ := io.ReadAll(r.Body)
		l.questions <- question{r.Method, r.RequestURI, string(body), r.Header.Clone()}
		w.Header().Set("RateLimit", `"shop-key";r=4;t=60`)
		for name, value := range figures {
			w.Header().Set(name, value)
		}
		key := r.Header.Get("X-Api-Key")
		onNginx := strings.HasPrefix(r.URL.Path, "/ratelimit/nginx/")
		status := map[string]int{"429": 429, "503": 503, "401": 401}[key]
		switch {
		case status == 0:
			return
		case status == 401 && onNginx:
			status = http.StatusBadRequest
		case status != 401:
			w.Header().Set("Retry-After", "60")
			if onNginx {
				w.Header().Set("X-RateLimit-Status", key)
				status = http.StatusForbidden
			}
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"title":"from the listener"}`)
	}))
	t.Cleanup(s.Close)
	l.addr = s.Listener.Addr().String()
	return l
}

// gateway is a running gateway.
type gateway struct {
	*testenv.Running
	t      *testing.T
	url    string
	client *http.Client
}

// setup says how a test runs a gateway.
type setup struct {
	product  *product
	dir      string   // of the test, with the adapted files of the example
	addr     string   // where clients connect
	nodes    []string // addresses
	app      string
	replaced map[string]string // in the files, besides addresses
}

// place copies the files of an example to a directory of the test and replaces what a
// reader would adapt.
func (s *setup) place(t *testing.T, files ...string) {
	t.Helper()
	s.dir, s.addr = t.TempDir(), testenv.FreeAddr(t)
	replace := map[string]string{
		clientsAddr: s.addr, sluiceAddr: s.nodes[0], appAddr: s.app, questionsAddr: testenv.FreeAddr(t),
	}
	maps.Copy(replace, patience)
	maps.Copy(replace, s.replaced)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for was, is := range replace {
			text = strings.ReplaceAll(text, was, is)
		}
		if err := os.WriteFile(filepath.Join(s.dir, filepath.Base(file)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// start runs the gateway.
func (s *setup) start(t *testing.T, p *testenv.Program) *gateway {
	t.Helper()
	p.Dir, p.Addr = s.dir, s.addr
	p.Env = append(p.Env, "SLUICE_TOKEN="+s.product.token)
	g := &gateway{t: t, url: "http://" + s.addr, Running: testenv.Start(t, p),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: 20 * time.Second}}
	t.Cleanup(g.client.CloseIdleConnections)
	return g
}

// response is what a client of a gateway got.
type response struct {
	status int
	header http.Header
	body   string
}

// send makes one request of a client. headers are names and values, alternating.
func (g *gateway) send(method, target string, body io.Reader, headers ...string) response {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, g.url+target, body)
	if err != nil {
		g.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := g.client.Do(req)
	if err != nil {
		g.t.Errorf("%s %s: %v", method, target, err)
		return response{}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Errorf("%s %s: %v", method, target, err)
	}
	return response{res.StatusCode, res.Header, string(b)}
}

// dial opens a connection of a client.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// wait polls until ok, for at most 60 s.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-limit.C:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}
