package httplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/api/client"
	"sluice/api/client/httplimit"
	"sluice/internal/playbook"
	"sluice/internal/testenv"
	"sluice/rules/profile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(m)) }

const patience = 20 * time.Second

func newClient(t *testing.T, at string, opt client.Options) *client.Client {
	t.Helper()
	opt.Timeout, opt.CallTimeout = patience, patience
	c, err := client.New(at, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// limiter returns a Limiter of a service with these rules.
func limiter(t *testing.T, file string, opt httplimit.Options) *httplimit.Limiter {
	t.Helper()
	w := playbook.Serve(t)
	if err := w.PutInForce([]byte(file)); err != nil {
		t.Fatal(err)
	}
	return newLimiter(t, newClient(t, w.URL(), client.Options{Token: w.Token()}), opt)
}

func newLimiter(t *testing.T, c *client.Client, opt httplimit.Options) *httplimit.Limiter {
	t.Helper()
	l, err := httplimit.New(c, opt)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// request is a request from 203.0.113.7; header pairs follow the path.
func request(t *testing.T, method, path string, header ...string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), method, "http://shop.test"+path, nil)
	r.RemoteAddr = "203.0.113.7:4711"
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func serve(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// status serves one request and returns its status.
func status(t *testing.T, h http.Handler, r *http.Request) int {
	t.Helper()
	res := serve(h, r)
	defer res.Body.Close()
	return res.StatusCode
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })

func TestHandler_AllowsWithHeadersAndDeniesWithTheProblem(t *testing.T) {
	l := limiter(t, "rules: [{name: per-ip, scope: ip, limit: 1, window_ms: 60000, algorithm: fixed_window}]",
		httplimit.Options{})
	h := l.Handler(ok)
	res := serve(h, request(t, "GET", "/"))
	defer res.Body.Close()
	if res.StatusCode != 200 || res.Header.Get("RateLimit") != `"per-ip";r=0;t=60` ||
		res.Header.Get("X-RateLimit-Remaining") != "0" || res.Header.Get("X-RateLimit-Mode") != "" {
		t.Errorf("allowed: %d %v", res.StatusCode, res.Header)
	}
	res = serve(h, request(t, "GET", "/"))
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	var p struct {
		Type   string
		Status int
		Error  string
	}
	if err := json.Unmarshal(body, &p); err != nil || p.Status != 429 || p.Error != "rate_limit_exceeded" ||
		!strings.HasSuffix(p.Type, "quota-exceeded") {
		t.Errorf("body %s, %v", body, err)
	}
	if res.StatusCode != 429 || res.Header.Get("Retry-After") != "60" || res.Header.Get("RateLimit-Policy") == "" ||
		res.Header.Get("Content-Type") != "application/problem+json" || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("denied: %d %v", res.StatusCode, res.Header)
	}
}

// seen is a service that records checks and allows them, with what a test adds to the answer.
type seen struct {
	mu     sync.Mutex
	checks []client.Check
	calls  []string
	answer string
}

func (s *seen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, r.URL.Path)
	var q client.Check
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.checks = append(s.checks, q)
	_, _ = io.WriteString(w, `{"allowed":true,"status":200,"limits":[],"headers":{}`+s.answer+`}`)
}

func (s *seen) last(t *testing.T) client.Check {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.checks) == 0 {
		t.Fatal("no check was sent")
	}
	return s.checks[len(s.checks)-1]
}

func (s *seen) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func newSeen(t *testing.T, opt httplimit.Options) (*seen, *httplimit.Limiter) {
	t.Helper()
	s := &seen{}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, newLimiter(t, newClient(t, srv.URL, client.Options{}), opt)
}

func TestHandler_RouteIsThePatternThatMatched(t *testing.T) {
	s, l := newSeen(t, httplimit.Options{Profile: profile.Profile{Routes: []string{"/orders/{id}"}}})
	mux := http.NewServeMux()
	for _, pattern := range []string{"GET /users/{id}", "POST shop.test/users/{id}", "/files/{path...}", "/sub/", "/{$}",
		"/docs/{$}"} {
		mux.Handle(pattern, ok)
	}
	inner := http.NewServeMux()
	inner.Handle("GET /users/{id}", l.Handler(ok)) // registered, not wrapped
	for _, tt := range []struct{ method, path, want string }{
		{"GET", "/users/17", "/users/{id}"},
		{"POST", "/users/17", "/users/{id}"},
		{"GET", "/files/a/b", "/files/*"},
		{"GET", "/sub/a?q=1", "/sub/a"},
		{"GET", "/", "/"},
		{"GET", "/docs/", "/docs/"},
		{"GET", "/elsewhere", "/elsewhere"},
		{"GET", "/orders/7", "/orders/{id}"},
	} {
		if status(t, l.Handler(mux), request(t, tt.method, tt.path)); s.last(t).Route != tt.want {
			t.Errorf("%s %s has the route %s, want %s", tt.method, tt.path, s.last(t).Route, tt.want)
		}
	}
	if got := status(t, inner, request(t, "GET", "/users/18")); got != 200 || s.last(t).Route != "/users/{id}" {
		t.Errorf("inside a mux: %d, route %s", got, s.last(t).Route)
	}
}

func TestHandler_HostIsThatOfTheRequestWhoeverSendsIt(t *testing.T) {
	s, l := newSeen(t, httplimit.Options{TrustedProxies: []string{"10.0.0.0/8"}})
	for _, from := range []string{"203.0.113.7:1", "10.0.0.1:1"} {
		r := request(t, "GET", "/", "X-Forwarded-For", "198.51.100.9", "X-Forwarded-Host", "forged.test")
		r.RemoteAddr, r.Host = from, "Shop.test:8443"
		status(t, l.Handler(ok), r)
		if q := s.last(t); q.Host != "shop.test" {
			t.Errorf("from %s: host %q", from, q.Host)
		}
	}
}

func TestHandler_AddressIsTheConnectionsUnlessAProxyIsTrusted(t *testing.T) {
	s, l := newSeen(t, httplimit.Options{TrustedProxies: []string{"10.0.0.0/8"},
		Profile: profile.Profile{Weight: &profile.WeightSource{Header: "X-Weight"}}})
	for _, tt := range []struct {
		from, forwarded, want string
		weight                bool
	}{
		{from: "203.0.113.7:1", forwarded: "198.51.100.9", want: "203.0.113.7"},
		{from: "10.0.0.1:1", forwarded: "198.51.100.9, 203.0.113.8, 10.0.0.2", want: "203.0.113.8", weight: true},
		{from: "10.0.0.1:1", want: "10.0.0.1"},
		{from: "[2001:db8::1]:1", want: "2001:db8::1"},
		{from: "@", want: ""},
	} {
		r := request(t, "GET", "/", "X-Weight", "7")
		r.RemoteAddr = tt.from
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		status(t, l.Handler(ok), r)
		if q := s.last(t); q.IP != tt.want || (q.Weight != nil) != tt.weight || tt.weight && *q.Weight != 7 {
			t.Errorf("from %s for %q: ip %q, weight %v", tt.from, tt.forwarded, q.IP, q.Weight)
		}
	}
	r := request(t, "GET", "/", "X-Weight", "seven", "X-Forwarded-For", "203.0.113.8")
	r.RemoteAddr = "10.0.0.1:1"
	if got := status(t, l.Handler(ok), r); got != 400 {
		t.Errorf("a proxy's weight that is no number: %d", got)
	}
}

func TestHandler_FactsComeFromTheProfileAndFromDescribe(t *testing.T) {
	s, l := newSeen(t, httplimit.Options{
		Profile: profile.Profile{
			Facts: profile.Facts{
				APIKey:     []profile.Source{{Header: "X-Api-Key"}},
				Tier:       []profile.Source{{Value: "free"}},
				Attributes: map[string][]profile.Source{"tenant": {{Cookie: "t"}}},
				Fields:     map[string][]profile.Source{"bytes": {{Header: "Content-Length"}}},
			},
			Missing: map[string]profile.MissingFact{"api_key": {Action: profile.MissingDeny}},
		},
		Describe: func(r *http.Request, q *client.Check) {
			q.User = r.URL.Query().Get("who")
			q.Weight = new(int64(3))
		},
		Skip: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
	})
	h := l.Handler(ok)
	if got := status(t, h, request(t, "POST", "/a?who=ann", "X-Api-Key", "k1", "Cookie", "t=acme", "Content-Length",
		"99")); got != 200 {
		t.Fatalf("status %d", got)
	}
	q := s.last(t)
	if q.Method != "POST" || q.User != "ann" || q.APIKey != "k1" || q.Tier != "free" || q.Attributes["tenant"] != "acme" ||
		q.Attributes["host"] != "shop.test" || q.Host != "shop.test" || q.Fields["bytes"] != 99 || *q.Weight != 3 {
		t.Errorf("got %+v", q)
	}
	res := serve(h, request(t, "GET", "/a"))
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != 403 || !strings.Contains(string(body), `"type":"about:blank"`) ||
		!strings.Contains(string(body), "api_key") {
		t.Errorf("without an API key: %d %s", res.StatusCode, body)
	}
	before := len(s.paths())
	if got := status(t, h, request(t, "OPTIONS", "/a")); got != 200 {
		t.Errorf("OPTIONS: %d", got)
	}
	if got := status(t, h, request(t, "GET", "/healthz")); got != 200 {
		t.Errorf("a skipped request: %d", got)
	}
	if n := len(s.paths()) - before; n != 0 {
		t.Errorf("%d checks of requests that are skipped", n)
	}
}

func TestHandler_ShowsOnlyTheHeadersOfTheProfile(t *testing.T) {
	l := limiter(t, "rules: [{name: per-ip, scope: ip, limit: 1, window_ms: 60000, algorithm: fixed_window}]",
		httplimit.Options{Profile: profile.Profile{Headers: []string{"X-RateLimit-Re*"}}})
	res := serve(l.Handler(ok), request(t, "GET", "/"))
	defer res.Body.Close()
	if res.Header.Get("X-RateLimit-Remaining") != "0" || res.Header.Get("X-RateLimit-Limit") != "" ||
		res.Header.Get("RateLimit") != "" {
		t.Errorf("headers %v", res.Header)
	}
	denied := serve(l.Handler(ok), request(t, "GET", "/"))
	defer denied.Body.Close()
	body, _ := io.ReadAll(denied.Body)
	if denied.StatusCode != 429 || !strings.Contains(string(body), "rate_limit_exceeded") ||
		strings.Contains(string(body), "per-ip") || strings.Contains(string(body), "violated-policies") {
		t.Errorf("denied: %d %s", denied.StatusCode, body)
	}
}

func TestHandler_SlotEndsWithTheHandlerEvenIfItPanics(t *testing.T) {
	l := limiter(t, "rules: [{name: slots, scope: ip, limit: 1, window_ms: 3600000, algorithm: concurrency}]",
		httplimit.Options{})
	within := l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a := httplimit.Answer(r.Context()); a == nil || a.Lease == "" {
			t.Errorf("the handler's answer: %+v", a)
		}
		if got := status(t, l.Handler(ok), request(t, "GET", "/")); got != 429 {
			t.Errorf("a second request beside the first: %d", got)
		}
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
	}))
	// The slot is released in the background, so the next request may have to try again.
	free := func(path string) {
		t.Helper()
		deadline := time.After(patience)
		for {
			called := false
			func() {
				defer func() { _ = recover() }()
				status(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					l.Serve(w, r, "", func(r *http.Request) {
						called = true
						if a := httplimit.Answer(r.Context()); a == nil || a.Lease == "" {
							t.Errorf("the handler's answer: %+v", a)
						}
						if path == "/panic" {
							panic(http.ErrAbortHandler)
						}
					})
				}), request(t, "GET", path))
			}()
			if called {
				return
			}
			select {
			case <-deadline:
				t.Fatal("the slot was not released")
			default:
			}
		}
	}
	status(t, within, request(t, "GET", "/"))
	free("/")
	free("/panic")
	free("/")
}

func TestHandler_DelayIsWaitedForUnlessTheContextEnds(t *testing.T) {
	s, l := newSeen(t, httplimit.Options{})
	s.answer = `,"delay_ms":1`
	if got := status(t, l.Handler(ok), request(t, "GET", "/")); got != 200 {
		t.Errorf("a short delay: %d", got)
	}
	s.answer = `,"delay_ms":3600000`
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan int)
	go func() {
		ran <- status(t, l.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Error("the handler ran too early")
		})), request(t, "GET", "/").WithContext(ctx))
	}()
	for len(s.paths()) < 2 {
		select {
		case got := <-ran:
			t.Fatalf("ended with %d before the context", got)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if got := <-ran; got != 503 {
		t.Errorf("status %d after the context ended", got)
	}
}

func TestHandler_WaitsWithAtMostSoManyRequests(t *testing.T) {
	s, l := newSeen(t, httplimit.Options{MostWaiting: 1})
	s.answer = `,"delay_ms":3600000`
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan int, 2)
	for range 2 { // one waits until its context ends
		go func() { ran <- status(t, l.Handler(ok), request(t, "GET", "/").WithContext(ctx)) }()
	}
	if got := <-ran; got != 200 {
		t.Errorf("the request for which there was no room: %d", got)
	}
	cancel()
	if got := <-ran; got != 503 {
		t.Errorf("the request that waited: %d", got)
	}
	c := newClient(t, "http://127.0.0.1:1", client.Options{})
	if _, err := httplimit.New(c, httplimit.Options{MostWaiting: -1}); err == nil {
		t.Error("a negative number was accepted")
	}
}

func TestHandler_FailModeShowsInTheHeader(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for mode, want := range map[string]int{client.FailOpen: 200, client.FailClosed: 503, client.FailLocal: 200} {
		c := newClient(t, gone.URL, client.Options{FailMode: mode,
			LocalLimit: &client.LocalLimit{Limit: 1, Window: time.Hour}})
		h := newLimiter(t, c, httplimit.Options{}).Handler(ok)
		res := serve(h, request(t, "GET", "/"))
		defer res.Body.Close() //nolint:gocritic // deferInLoop: three recorded responses
		if res.StatusCode != want || res.Header.Get("X-RateLimit-Mode") != mode {
			t.Errorf("%s: %d %v", mode, res.StatusCode, res.Header)
		}
		if got := status(t, h, request(t, "GET", "/")); mode == client.FailLocal && got != 429 {
			t.Errorf("above the local limit: %d", got)
		}
	}
}

func TestHandler_ErrorIsToldAndTheFailModeDecides(t *testing.T) {
	w := playbook.Serve(t)
	for mode, want := range map[string]int{client.FailOpen: 200, client.FailClosed: 503} {
		var told []error
		c := newClient(t, w.URL(), client.Options{Token: "slk_revoked", FailMode: mode})
		l := newLimiter(t, c, httplimit.Options{OnError: func(_ *http.Request, err error) { told = append(told, err) }})
		if got := status(t, l.Handler(ok), request(t, "GET", "/")); got != want {
			t.Errorf("%s: status %d, want %d", mode, got, want)
		}
		var p *client.Problem
		if len(told) != 1 || !errors.As(told[0], &p) || p.Status != 401 {
			t.Errorf("%s: told %v", mode, told)
		}
	}
}

func TestNew_NamesWhatIsWrong(t *testing.T) {
	c := newClient(t, "http://127.0.0.1:1", client.Options{})
	for want, opt := range map[string]httplimit.Options{
		"client_ip.trusted[0]": {TrustedProxies: []string{"everyone"}},
		"routes":               {Profile: profile.Profile{Routes: []string{"/a/{x}", "/a/{y}"}}},
		"headers[0]":           {Profile: profile.Profile{Headers: []string{"Set-Cookie"}}},
	} {
		if _, err := httplimit.New(c, opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want an error about %s", opt, err, want)
		}
	}
	if _, err := httplimit.New(nil, httplimit.Options{}); err == nil {
		t.Error("no client is no error")
	}
}

// A client cannot make a check invalid by its path, which the fail mode would then decide.
// The decision log has the user agent and the trace of a request. Headers of any length and form leave it checked.
func TestHandler_TellsWhoAskedForTheDecisionLog(t *testing.T) {
	s, l := newSeen(t, httplimit.Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	long := strings.Repeat("é", 300)
	for _, tt := range []struct{ agent, traceparent, wantAgent, wantTrace string }{
		{"shop/2.1", "00-" + trace + "-00f067aa0ba902b7-01", "shop/2.1", trace},
		{"", "00-" + trace, "", ""},
		{long, "-", strings.Repeat("é", 256), ""},
		{"a" + long, "00-" + strings.Repeat("f", 100_000) + "-0-0", "a" + strings.Repeat("é", 255), ""},
		{"\xff/1", "", "/1", ""},
	} {
		r := request(t, "GET", "/a", "User-Agent", tt.agent, "Traceparent", tt.traceparent)
		if got := status(t, l.Handler(ok), r); got != 200 {
			t.Fatalf("status %d", got)
		}
		if q := s.last(t); q.UserAgent != tt.wantAgent || q.TraceID != tt.wantTrace {
			t.Errorf("%.20q, %.40q: sends %q, %q", tt.agent, tt.traceparent, q.UserAgent, q.TraceID)
		}
	}
}

func TestHandler_ChecksPathsThatAreNotUTF8(t *testing.T) {
	s, l := newSeen(t, httplimit.Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
	for _, path := range []string{"/a%ff", "/a%c3%28/b", "/" + strings.Repeat("%fe", 2000)} {
		before := len(s.paths())
		if got := status(t, l.Handler(ok), request(t, "GET", path)); got != 200 || len(s.paths()) != before+1 {
			t.Errorf("%.20s: %d after %d checks, want one", path, got, len(s.paths())-before)
		}
	}
}

func TestServe_NearDecidesInMemory(t *testing.T) {
	w := playbook.Serve(t)
	if err := w.PutInForce([]byte(`rules:
  - {name: a, scope: ip, limit: 300, window_ms: 60000, algorithm: fixed_window, hot_keys: leased, fail_mode: closed}
`)); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, w.URL(), client.Options{Token: w.Token(), FailMode: client.FailClosed})
	l := newLimiter(t, c, httplimit.Options{Near: true})
	var near int
	h := l.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if a := httplimit.Answer(r.Context()); a.Degraded == "" && a.Allowed {
			near++
		}
	}))
	passed, left := 0, ""
	for range 500 {
		res := serve(h, request(t, http.MethodGet, "/x"))
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			passed++
			left = res.Header.Get("X-RateLimit-Remaining")
		} else if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
			t.Fatalf("status %d, %v", res.StatusCode, res.Header)
		}
	}
	if passed != 300 || near != 300 || left == "" {
		t.Errorf("%d passed, %d of them to the handler, %s left; want 300", passed, near, left)
	}
}
