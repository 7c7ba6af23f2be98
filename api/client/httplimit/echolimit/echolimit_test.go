package echolimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/goleak"

	"sluice/api/client"
	"sluice/api/client/httplimit"
	"sluice/api/client/httplimit/echolimit"
	"sluice/internal/playbook"
	"sluice/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(m)) }

func TestNew_LimitsByTheRouteOfEcho(t *testing.T) {
	w := playbook.Serve(t)
	if err := w.PutInForce([]byte(`rules:
  - {name: users, scope: ip, route: "/users/{id}", limit: 1, window_ms: 60000, algorithm: fixed_window}
  - {name: files, scope: ip+route, route: "/files/*", limit: 1, window_ms: 60000, algorithm: fixed_window}
`)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(w.URL(), client.Options{Timeout: 20 * time.Second, Token: w.Token()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	limit, err := echolimit.New(c, httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := echo.New()
	e.Use(limit)
	e.GET("/users/:id", func(ec echo.Context) error {
		if a := httplimit.Answer(ec.Request().Context()); a == nil || a.Rule != "users" {
			t.Errorf("the handler's answer: %+v", a)
		}
		return ec.String(http.StatusTeapot, ec.Param("id"))
	})
	e.GET("/files/*", func(echo.Context) error { return echo.NewHTTPError(http.StatusGone) })
	for _, tt := range []struct {
		path string
		want int
	}{{"/users/1", 418}, {"/users/2", 429}, {"/files/a", 410}, {"/files/b", 429}, {"/nothing", 404}} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, tt.path, nil)
		rec := httptest.NewRecorder()
		e.ServeHTTP(rec, r)
		if rec.Code != tt.want {
			t.Errorf("%s: %d %s, want %d", tt.path, rec.Code, rec.Body, tt.want)
		}
		if h := rec.Header(); tt.want == 429 && (h.Get("Retry-After") != "60" ||
			h.Get("Content-Type") != "application/problem+json") {
			t.Errorf("%s: headers %v", tt.path, h)
		}
	}
	if _, err := echolimit.New(c, httplimit.Options{TrustedProxies: []string{"x"}}); err == nil {
		t.Error("wrong options are no error")
	}
}
