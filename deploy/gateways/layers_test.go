package gateways_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sluice/api/client"
	"sluice/api/client/httplimit"
)

// sendsFiguresOnce has an application behind the gateway that limits by httplimit, too.
func (e *example) sendsFiguresOnce(t *testing.T, p *product) {
	l := startListener(t)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"allowed": true, "status": 200, "limits": [], "headers":
			{"RateLimit": "\"app\";r=1;t=9", "X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "9"}}`)
	}))
	t.Cleanup(service.Close)
	c, err := client.New(service.URL, client.Options{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	limit, err := httplimit.New(c, httplimit.Options{TrustedProxies: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	app := httptest.NewServer(limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "passed")
	})))
	t.Cleanup(app.Close)
	g := e.start(t, &setup{product: p, nodes: []string{l.addr}, app: app.Listener.Addr().String()})
	got := g.send(http.MethodGet, "/a", http.NoBody, "X-Api-Key", "k1")
	if figure := got.header.Values("RateLimit"); got.body != "passed" || len(figure) != 1 || figure[0] != `"shop-key";r=4;t=60` {
		t.Errorf("the client got %d %q, RateLimit %q", got.status, got.body, figure)
	}
	wantFigures(t, "an allowed request", got, figures)
}
