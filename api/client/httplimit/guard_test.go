package httplimit_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/api/client"
	"sluice/api/client/httplimit"
	"sluice/internal/playbook"
	"sluice/rules/profile"
)

// Of 40 requests at once, as many as the guard's burst pass and spend of the rule. The others are never asked.
func TestGuard_HoldsBeforeTheServiceIsAsked(t *testing.T) {
	for _, near := range []bool{false, true} {
		w := playbook.Serve(t)
		if err := w.PutInForce([]byte(`
rules: [{name: a, scope: ip, limit: 100, window_ms: 3600000, algorithm: fixed_window}]`)); err != nil {
			t.Fatal(err)
		}
		c := newClient(t, w.URL(), client.Options{Token: w.Token()})
		l := newLimiter(t, c, httplimit.Options{Near: near,
			Guard: &client.LocalLimit{Limit: 1, Burst: 5, Window: 24 * time.Hour}})
		h := l.Handler(ok)
		var passed atomic.Int32
		var requests sync.WaitGroup
		for range 40 {
			r := request(t, http.MethodGet, "/x")
			requests.Go(func() {
				res := serve(h, r)
				defer res.Body.Close()
				if res.StatusCode == http.StatusOK {
					passed.Add(1)
				} else if res.StatusCode != http.StatusTooManyRequests {
					t.Errorf("status %d", res.StatusCode)
				}
			})
		}
		requests.Wait()
		a, err := c.Check(t.Context(), client.Check{IP: "203.0.113.7", Weight: new(int64(0))})
		if err != nil || a.Remaining == nil || *a.Remaining != 95 || passed.Load() != 5 {
			t.Errorf("near %t: %d passed, and the rule has %+v, %v; want 5 and 95 left", near, passed.Load(), a, err)
		}
		other := request(t, http.MethodGet, "/x")
		other.RemoteAddr = "203.0.113.8:1"
		if got := status(t, h, other); got != http.StatusOK {
			t.Errorf("near %t: another address got %d", near, got)
		}
	}
}

func TestGuard_HoldsWithoutTheService(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	c := newClient(t, gone.URL, client.Options{FailMode: client.FailOpen})
	h := newLimiter(t, c, httplimit.Options{Guard: &client.LocalLimit{Limit: 1, Window: time.Minute}}).Handler(ok)
	if got := status(t, h, request(t, http.MethodGet, "/x")); got != http.StatusOK {
		t.Fatalf("the first request got %d", got)
	}
	res := serve(h, request(t, http.MethodGet, "/x"))
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	var p struct{ Error string }
	if err := json.Unmarshal(body, &p); err != nil || p.Error != "rate_limit_exceeded" {
		t.Errorf("body %s, %v", body, err)
	}
	if h := res.Header; res.StatusCode != http.StatusTooManyRequests || h.Get("Retry-After") != "60" ||
		h.Get("X-RateLimit-Limit") != "1" || h.Get("X-RateLimit-Remaining") != "0" || h.Get("X-RateLimit-Mode") != "" {
		t.Errorf("denied by the guard: %d %v", res.StatusCode, h)
	}
}

// The bucket is that of the user whom Describe names, and it takes the weight.
func TestGuard_TakesTheWeightOfTheCheck(t *testing.T) {
	s, l := newSeen(t, httplimit.Options{
		Guard: &client.LocalLimit{Limit: 10, Window: time.Hour},
		Describe: func(r *http.Request, q *client.Check) {
			q.User = r.Header.Get("User")
			q.Weight = new(int64(6))
		},
	})
	h := l.Handler(ok)
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if got := status(t, h, request(t, http.MethodGet, "/x", "User", "ada")); got != want {
			t.Errorf("request %d: status %d, want %d", i, got, want)
		}
	}
	if got := status(t, h, request(t, http.MethodGet, "/x", "User", "bo")); got != http.StatusOK || len(s.paths()) != 2 {
		t.Errorf("another user: %d after %d calls", got, len(s.paths()))
	}
}

func TestGuard_WithoutLimitIsRefused(t *testing.T) {
	c := newClient(t, "http://127.0.0.1:1", client.Options{})
	_, err := httplimit.New(c, httplimit.Options{Guard: &client.LocalLimit{Limit: 1}})
	if err == nil || !strings.Contains(err.Error(), "Guard") {
		t.Errorf("error %v, want one about the Guard", err)
	}
	if _, err := client.NewGuard(nil); err == nil {
		t.Error("a Guard of nothing is no error")
	}
}

// A client must not receive two sets of figures.
func TestHandler_LeavesTheFiguresOfAGateway(t *testing.T) {
	const own, gateways = `"per-ip";r=0;t=60`, `"edge";r=7;t=5`
	for _, tt := range []struct {
		name, from      string
		request, before string // RateLimit of the request, and of the response before the limiter
		first, second   string // RateLimit of the allowed and of the denied response
	}{
		{"nobody else", "10.0.0.1:1", "", "", own, own},
		{"the gateway says in the request that it sends them", "10.0.0.1:1", gateways, "", "", ""},
		{"a client says so", "203.0.113.7:1", gateways, "", own, own},
		{"a handler before", "203.0.113.7:1", "", gateways, gateways, own},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := limiter(t, "rules: [{name: per-ip, scope: ip, limit: 1, window_ms: 60000, algorithm: fixed_window}]",
				httplimit.Options{TrustedProxies: []string{"10.0.0.0/8"}})
			h := l.Handler(ok)
			for i, want := range []string{tt.first, tt.second} {
				w := httptest.NewRecorder()
				if tt.before != "" {
					w.Header().Set("RateLimit", tt.before)
					w.Header().Set("X-RateLimit-Remaining", "7")
				}
				r := request(t, http.MethodGet, "/")
				r.RemoteAddr = tt.from
				if tt.request != "" {
					r.Header.Set("RateLimit", tt.request)
				}
				h.ServeHTTP(w, r)
				if w.Header().Get("RateLimit") != want {
					t.Errorf("request %d: RateLimit %q, want %q", i, w.Header().Get("RateLimit"), want)
				}
				if left := w.Header().Get("X-RateLimit-Remaining"); (left == "0") != (want == own) {
					t.Errorf("request %d: X-RateLimit-Remaining %q beside RateLimit %q", i, left, want)
				}
				if i == 1 && (w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "60") {
					t.Errorf("denied with %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
				}
			}
		})
	}
}

// Layers on one Sluice have rules of their own: the profile of the gateway sets an attribute, which the rules ask for.
func TestLayers_SpendOnceEach(t *testing.T) {
	l := limiter(t, `rules:
  - {name: edge, scope: ip, when: 'attributes.layer == "edge"', limit: 100, window_ms: 60000, algorithm: fixed_window}
  - {name: app, scope: user, when: 'attributes.layer == "app"', limit: 9, window_ms: 60000, algorithm: fixed_window}
`, httplimit.Options{
		Profile: profile.Profile{Facts: profile.Facts{
			Attributes: map[string][]profile.Source{"layer": {{Value: "app"}}},
		}},
		Describe: func(_ *http.Request, q *client.Check) { q.User = "ada" },
	})
	res := serve(l.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if a := httplimit.Answer(r.Context()); len(a.Limits) != 1 || a.Limits[0].Rule != "app" {
			t.Errorf("the limits of the application: %+v", a.Limits)
		}
	})), request(t, http.MethodGet, "/"))
	defer res.Body.Close()
	if res.Header.Get("RateLimit") != `"app";r=8;t=60` {
		t.Errorf("headers %v", res.Header)
	}
}
