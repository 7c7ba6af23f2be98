package gateways_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// These gateways wait as long as an answer says before they pass or deny, with at most so many requests at once.
func TestHAProxy_Waits(t *testing.T) {
	waits(t, startHAProxy, "MOST_WAITING = 1000", "MOST_WAITING = 1")
}
func TestNjs_Waits(t *testing.T) {
	waits(t, startNginx("nginx-njs.conf"), "limit_conn waiting 1000;", "limit_conn waiting 1;")
}

func waits(t *testing.T, start func(*testing.T, *setup) *gateway, most, one string) {
	t.Helper()
	const hour = "3600000"
	sluice := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, delay, asked := strings.Cut(r.Header.Get("X-Api-Key"), " "); asked {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("X-RateLimit-Delay-Ms", delay)
			code := map[string]int{"pass": http.StatusOK, "deny": http.StatusTooManyRequests}[status]
			if code != http.StatusOK && strings.HasPrefix(r.URL.Path, "/ratelimit/nginx/") {
				w.Header().Set("X-RateLimit-Status", "429")
				code = http.StatusForbidden
			}
			w.WriteHeader(code)
		}
	}))
	t.Cleanup(sluice.Close)
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(app.Close)
	for _, verdict := range []string{"pass", "deny"} {
		t.Run(verdict, func(t *testing.T) {
			want := map[string]int{"pass": http.StatusOK, "deny": http.StatusTooManyRequests}[verdict]
			g := start(t, &setup{product: &product{token: "none"}, nodes: []string{sluice.Listener.Addr().String()},
				app: app.Listener.Addr().String(), replaced: map[string]string{most: one}})
			if got := g.send(http.MethodGet, "/", nil, "X-Api-Key", verdict+" 1"); got.status != want {
				t.Errorf("a short wait: %d, want %d", got.status, want)
			}
			// Of two requests one waits, and the other one has no room.
			ended := make(chan int, 2)
			ctx, leave := context.WithCancel(t.Context())
			for range 2 {
				go func() { ended <- statusOf(ctx, g, verdict+" "+hour) }()
			}
			if got := <-ended; got != want {
				t.Errorf("the request without room: %d, want %d", got, want)
			}
			select {
			case got := <-ended:
				t.Errorf("the other one did not wait: %d", got)
			default:
			}
			leave()
			<-ended
		})
	}
}

// statusOf is the status of a request with a key, 0 if ctx ends before.
func statusOf(ctx context.Context, g *gateway, key string) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url, http.NoBody)
	if err != nil {
		return 0
	}
	req.Header.Set("X-Api-Key", key)
	res, err := g.client.Do(req)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}
