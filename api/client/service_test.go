package client_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/api/client"
	"sluice/internal/playbook"
	"sluice/internal/testenv"
)

// patience is how long a call may take on a busy machine.
const patience = 20 * time.Second

func newClient(t *testing.T, at string, opt client.Options) *client.Client {
	t.Helper()
	if opt.Timeout == 0 {
		opt.Timeout = patience
	}
	opt.CallTimeout = patience
	c, err := client.New(at, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// must fails the test on an error, or if a fail mode decided.
func must(t *testing.T) func(*client.Answer, error) *client.Answer {
	return func(a *client.Answer, err error) *client.Answer {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if a.Degraded != "" {
			t.Fatalf("a fail mode decided: %+v", a)
		}
		return a
	}
}

const perUser = `rules:
  - {name: per-user, scope: user, route: /v1/charges, limit: 3, window_ms: 60000, algorithm: fixed_window}
  - {name: exports, scope: user, route: /exports, limit: 1, window_ms: 60000, algorithm: concurrency}
`

func TestService_EveryMethod(t *testing.T) {
	w := playbook.Serve(t)
	if err := w.PutInForce([]byte(perUser)); err != nil {
		t.Fatal(err)
	}
	c, ctx, ok := newClient(t, w.URL(), client.Options{Token: w.Token()}), t.Context(), must(t)
	charges := client.Check{Method: "POST", Route: "/v1/charges", User: "42", IP: "203.0.113.7",
		Attributes: map[string]string{"tenant": "acme"}, Fields: map[string]int64{"bytes": 12}}

	a := ok(c.Check(ctx, charges))
	if !a.Allowed || a.Status != 200 || a.Rule != "per-user" || *a.Limit != 3 || *a.Remaining != 2 || len(a.Limits) != 1 ||
		a.Limits[0].Key != "user:42" || a.Headers["X-RateLimit-Remaining"] != "2" {
		t.Errorf("check: %+v", a)
	}
	heavy := charges
	heavy.Weight = new(int64(3))
	if a = ok(c.Check(ctx, heavy)); a.Allowed || a.Status != 429 || a.Headers["Retry-After"] == "" ||
		!strings.Contains(string(a.Body), "quota-exceeded") {
		t.Errorf("a check above the limit: %+v", a)
	}
	if a = ok(c.Charge(ctx, heavy)); a.Allowed || *a.Remaining != 0 {
		t.Errorf("charge: %+v", a)
	}
	if a = ok(c.Refund(ctx, heavy)); a.Refunded != 3 || *a.Remaining != 2 {
		t.Errorf("refund: %+v", a)
	}
	if a = ok(c.Reset(ctx, charges)); *a.Remaining != 3 {
		t.Errorf("reset: %+v", a)
	}

	returned := heavy
	returned.OnExpire = &client.OnExpire{Percent: 50}
	r := ok(c.Reserve(ctx, returned, 5*time.Second))
	if r.Reservation == "" || r.ExpiresInMS != 5000 || *r.Remaining != 0 || *r.OnExpirePercent != 50 {
		t.Errorf("reserve: %+v", r)
	}
	longer := ok(c.RenewReservation(ctx, client.Renewal{Reservation: r.Reservation, TTLMS: 60_000}))
	if longer.Reservation == "" || longer.ExpiresInMS != 60_000 {
		t.Errorf("renew: %+v", longer)
	}
	much := client.Renewal{Reservation: longer.Reservation, More: &client.More{Weight: 1}}
	if a = ok(c.RenewReservation(ctx, much)); a.Allowed || a.Reservation != "" {
		t.Errorf("more than is left: %+v", a)
	}
	used := client.Settlement{Reservation: longer.Reservation, Weight: new(int64(1))}
	if a = ok(c.Settle(ctx, used)); a.Refunded != 2 || *a.Remaining != 2 {
		t.Errorf("settle: %+v", a)
	}
	if a = ok(c.Settle(ctx, used)); !a.Replayed {
		t.Errorf("the second settle: %+v", a)
	}

	export := client.Check{Route: "/exports", User: "42", RequestID: "e1"}
	first := ok(c.Check(ctx, export))
	second := export
	second.RequestID = "e2"
	if a = ok(c.Check(ctx, second)); first.Lease == "" || a.Allowed {
		t.Errorf("slots: %+v, then %+v", first, a)
	}
	if a = ok(c.Renew(ctx, first.Lease)); !a.Allowed {
		t.Errorf("renew: %+v", a)
	}
	if a = ok(c.RenewCheck(ctx, export)); !a.Allowed {
		t.Errorf("renew by id: %+v", a)
	}
	if a = ok(c.Release(ctx, first.Lease)); a.Refunded != 1 {
		t.Errorf("release: %+v", a)
	}
	if a = ok(c.Check(ctx, second)); !a.Allowed {
		t.Errorf("after the release: %+v", a)
	}
	if a = ok(c.ReleaseCheck(ctx, second)); a.Refunded != 1 {
		t.Errorf("release by id: %+v", a)
	}

	answers, err := c.Batch(ctx, []client.Check{charges, direct("a", 5), direct("b", 0)})
	if err != nil || len(answers) != 3 || *answers[0].Remaining != 1 || !answers[1].Allowed || answers[2].Allowed {
		t.Errorf("batch: %+v, %v", answers, err)
	}
	if answers, err = c.Batch(ctx, nil); err != nil || len(answers) != 0 {
		t.Errorf("an empty batch: %+v, %v", answers, err)
	}
	one := client.Limit{Count: 1, WindowMS: 60_000}
	several := client.Check{Limits: []client.DirectLimit{{Name: "per-ip", Key: "ip", Limit: one},
		{Key: "user", Limit: one}}}
	for _, want := range []bool{true, false} {
		if a, err := c.Check(ctx, several); err != nil || a.Allowed != want || len(a.Limits) != 2 ||
			a.Limits[0].Rule != "per-ip" || a.Limits[1].Rule != "default-2" {
			t.Errorf("several limits: %+v, %v", a, err)
		}
	}
	e, err := c.Explain(ctx, charges)
	if err != nil || e.ActiveRules != 2 || *e.Decision.Remaining != 1 || len(e.Rules) == 0 || !e.Rules[0].Matched {
		t.Errorf("explain: %+v, %v", e, err)
	}
}

func direct(key string, limit int64) client.Check {
	return client.Check{Key: key, Limit: &client.Limit{Count: limit, WindowMS: 60_000, Algorithm: "fixed_window"}}
}

func TestService_ProblemSaysWhatIsWrong(t *testing.T) {
	w := playbook.Serve(t)
	c, ctx := newClient(t, w.URL(), client.Options{Token: w.Token()}), t.Context()
	bad := direct("k", 5)
	bad.Weight = new(int64(-1))
	_, single := c.Check(ctx, bad)
	_, batch := c.Batch(ctx, []client.Check{direct("k", 5), bad})
	_, empty := c.Check(ctx, client.Check{})
	_, lease := c.Release(ctx, "no lease")
	for _, tt := range []struct {
		err   error
		field string
	}{{single, "weight"}, {batch, "checks[1].weight"}, {empty, "key"}, {lease, "lease"}} {
		var p *client.Problem
		if !errors.As(tt.err, &p) || p.Status != 422 || p.Type != "/problems/invalid" || len(p.Errors) != 1 ||
			p.Errors[0].Field != tt.field || client.Unavailable(tt.err) {
			t.Errorf("%s: %v", tt.field, tt.err)
		}
	}
	c = newClient(t, w.URL(), client.Options{Token: "slk_unknown"})
	var p *client.Problem
	if _, err := c.Check(ctx, direct("k", 5)); !errors.As(err, &p) || p.Status != 401 ||
		p.Type != "/problems/unauthorized" {
		t.Errorf("an unknown token: %v", err)
	}
}

// counting is a way to a service that counts the requests it passes on, and can hold them.
type counting struct {
	proxy    *httputil.ReverseProxy
	gate     atomic.Pointer[chan struct{}]
	requests atomic.Int64
}

func (p *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.requests.Add(1)
	if gate := p.gate.Load(); gate != nil {
		<-*gate
	}
	p.proxy.ServeHTTP(w, r)
}

func inFrontOf(t *testing.T, at string) (*counting, *httptest.Server) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	p := &counting{proxy: &httputil.ReverseProxy{Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}} // without forwarding headers
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return p, s
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}

func TestService_64CallersNeedFewRequestsAndOneOfThemIsInvalid(t *testing.T) {
	w := playbook.Serve(t)
	front, s := inFrontOf(t, w.URL())
	gate := make(chan struct{})
	front.gate.Store(&gate)
	c := newClient(t, s.URL, client.Options{Token: w.Token()})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			q := direct(fmt.Sprint("k", i), 1)
			if i == 13 {
				q.Algorithm = "guess"
			}
			a, err := c.Check(t.Context(), q)
			var p *client.Problem
			switch {
			case i == 13 && (!errors.As(err, &p) || len(p.Errors) != 1 || p.Errors[0].Field != "algorithm"):
				t.Errorf("the invalid check: %v", err)
			case i != 13 && (err != nil || !a.Allowed || a.Limits[0].Key != q.Key || *a.Remaining != 0):
				t.Errorf("%s: %+v, %v", q.Key, a, err)
			}
		})
	}
	eventually(t, "64 checks wait", func() bool { return c.Waiting() == 64 })
	close(gate)
	wg.Wait()
	// Those in flight, what gathered meanwhile, and that once more without the invalid check.
	if n := front.requests.Load(); n > client.MaxCalls+2 {
		t.Errorf("64 concurrent checks needed %d requests", n)
	}
	// Each of the others was charged exactly once.
	front.gate.Store(nil)
	for i := range 64 {
		q := direct(fmt.Sprint("k", i), 1)
		q.Weight = new(int64(0))
		if a := must(t)(c.Check(t.Context(), q)); i != 13 && *a.Remaining != 0 || i == 13 && *a.Remaining != 1 {
			t.Errorf("%s has %d left", q.Key, *a.Remaining)
		}
	}
}

// Two programs, each with a client of another node, admit together exactly the limit.
func TestService_StormOverTwoNodesAdmitsExactlyTheLimit(t *testing.T) {
	redis := testenv.Redis(t)
	const limit, callers, each = 700, 32, 20
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		w := playbook.ServeOn(t, redis)
		c := newClient(t, w.URL(), client.Options{Token: w.Token()})
		for range callers {
			wg.Go(func() {
				for range each {
					a, err := c.Check(t.Context(), direct("storm", limit))
					if err != nil || a.Degraded != "" {
						t.Errorf("got %+v, %v", a, err)
						return
					}
					if a.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	if got := admitted.Load(); got != limit {
		t.Errorf("%d of %d were admitted, want %d", got, 2*callers*each, limit)
	}
}

func TestService_KilledAndBack(t *testing.T) {
	w := playbook.Serve(t)
	front, s := inFrontOf(t, w.URL())
	c := newClient(t, s.URL, client.Options{FailMode: client.FailClosed, Token: w.Token()})
	must(t)(c.Check(t.Context(), direct("k", 1000)))
	at := s.Listener.Addr().String()
	s.CloseClientConnections()
	s.Close()
	for range 20 { // more than the breaker needs to open
		a, err := c.Check(t.Context(), direct("k", 1000))
		if err != nil || a.Degraded != client.FailClosed || a.Status != 503 {
			t.Fatalf("without the service: %+v, %v", a, err)
		}
	}
	if _, err := c.Charge(t.Context(), direct("k", 1000)); !client.Unavailable(err) {
		t.Errorf("a charge without the service: %v", err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	back := &httptest.Server{Listener: l, Config: &http.Server{Handler: front, ReadHeaderTimeout: patience}}
	back.Start()
	defer back.Close()
	eventually(t, "the service decides again", func() bool {
		a, err := c.Check(t.Context(), direct("k", 1000))
		if err != nil {
			t.Fatal(err)
		}
		return a.Degraded == ""
	})
	for range 5 { // and goes on to
		must(t)(c.Check(t.Context(), direct("k", 1000)))
	}
}

// A server whose process is stopped still accepts connections, because the kernel does.
func TestService_FrozenServerIsDecidedByTheFailMode(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var causes []error
	var mu sync.Mutex
	c := newClient(t, "http://"+l.Addr().String(), client.Options{
		Timeout: 25 * time.Millisecond, FailMode: client.FailLocal,
		LocalLimit: &client.LocalLimit{Limit: 10, Window: time.Hour},
		OnDegraded: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			causes = append(causes, err)
		},
	})
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 10 {
				a, err := c.Check(t.Context(), direct("k", 1))
				if err != nil || a.Degraded != client.FailLocal || !a.ByClient {
					t.Errorf("got %+v, %v", a, err)
					return
				}
				if a.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 10 {
		t.Errorf("%d admitted, want 10", admitted.Load())
	}
	if len(causes) != 640 {
		t.Errorf("OnDegraded was told %d times, want 640", len(causes))
	}
}

// A server that closes a connection without an answer may have charged: nothing is sent again.
func TestService_LostAnswerIsNotAskedAgain(t *testing.T) {
	var requests atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 { // so that the connection is one that is reused
			_, _ = w.Write([]byte(`{"allowed":true,"status":200,"limits":[],"headers":{}}`))
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	}))
	defer s.Close()
	c := newClient(t, s.URL, client.Options{})
	must(t)(c.Check(t.Context(), direct("k", 1)))
	for n := int64(2); n <= 4; n++ {
		if a, err := c.Check(t.Context(), direct("k", 1)); err != nil || a.Degraded != client.FailOpen {
			t.Errorf("got %+v, %v", a, err)
		}
		if requests.Load() != n {
			t.Errorf("%d requests after %d checks", requests.Load(), n)
		}
	}
}
