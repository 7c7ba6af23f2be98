package api

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/access"
	"sluice/rules"
)

func TestServer_UnknownPathsAndMethodsAreProblems(t *testing.T) {
	f := newFixture(t, nil)
	for _, path := range []string{"/", "/ratelimit", "/ratelimit/", "/ratelimit/check/", "/ratelimit/nothing",
		"/ratelimit/rules/1/2/3"} {
		a := f.do(http.MethodGet, path, "").want(404)
		if a.header.Get("Content-Type") != "application/problem+json" || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, a.header)
		}
	}
	for path, allow := range map[string]string{"/ratelimit/check": "POST", "/ratelimit/rules/1": "DELETE",
		"/livez": "GET"} {
		a := f.do("FOO", path, "").want(405)
		if !strings.Contains(a.header.Get("Allow"), allow) {
			t.Errorf("%s: Allow %q", path, a.header.Get("Allow"))
		}
		if a := f.do(http.MethodOptions, path, "").want(204); !strings.Contains(a.header.Get("Allow"), allow) {
			t.Errorf("%s: OPTIONS Allow %q", path, a.header.Get("Allow"))
		}
	}
	for path, allow := range map[string]string{"/ratelimit/rules/export": "GET", "/ratelimit/rules/import": "POST"} {
		if a := f.do(http.MethodPut, path, `{}`).want(405); !strings.Contains(a.header.Get("Allow"), allow) {
			t.Errorf("PUT %s: Allow %q", path, a.header.Get("Allow"))
		}
	}
	if a := f.do(http.MethodHead, "/livez", "").want(200); a.body != "" {
		t.Errorf("HEAD has a body %q", a.body)
	}
	if a := f.do(http.MethodHead, "/nothing", "").want(404); a.body != "" {
		t.Errorf("HEAD has a body %q", a.body)
	}
}

func TestServer_ContentTypes(t *testing.T) {
	f := newFixture(t, nil)
	const body = `{"key":"k","limit":1,"window_ms":1000}`
	for media, status := range map[string]int{
		"application/json": 200, "application/json; charset=utf-8": 200, "application/json;charset=UTF-8": 200,
		"APPLICATION/JSON": 200,
		"":                 415, "text/plain": 415, "application/x-www-form-urlencoded": 415,
		"application/json; charset=latin1": 415,
		"application/json; x=y":            415,
		"application/jsonx":                415, "application/merge-patch+json": 415, ";": 415,
	} {
		a := f.do(http.MethodPost, "/ratelimit/check", body, "Content-Type", media)
		if a.status != status {
			t.Errorf("%q: status %d, want %d", media, a.status, status)
		}
	}
	f.do(http.MethodPost, "/ratelimit/check", body, "Content-Encoding", "gzip").want(415)
}

func TestServer_RepeatedHeadersAreRefused(t *testing.T) {
	f := newFixture(t, nil)
	secret, tok := newToken(f, nil, access.ScopeCheck)
	f.access.Store(access.NewKeyring([]access.Token{tok}))
	ask := func(edit func(http.Header)) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ratelimit/check",
			strings.NewReader(`{"key":"k","limit":9,"window_ms":1000}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+secret)
		edit(r.Header)
		w := httptest.NewRecorder()
		f.echo.ServeHTTP(w, r)
		return w.Code
	}
	if got := ask(func(http.Header) {}); got != 200 {
		t.Fatalf("status %d, want 200", got)
	}
	if got := ask(func(h http.Header) { h.Add("Authorization", "Bearer x") }); got != 401 {
		t.Errorf("two credentials: status %d, want 401", got)
	}
	if got := ask(func(h http.Header) { h.Add("Content-Type", "text/plain") }); got != 415 {
		t.Errorf("two content types: status %d, want 415", got)
	}
}

func TestServer_BodiesAreBounded(t *testing.T) {
	f := newFixture(t, nil)
	pad := func(n int) string { return `{"user":"42"` + strings.Repeat(" ", n-13) + `}` }
	for path, most := range map[string]int{
		"/ratelimit/check": 64 << 10, "/ratelimit/charge": 64 << 10, "/ratelimit/release": 64 << 10,
		"/ratelimit/explain": 64 << 10, "/ratelimit/rules": 64 << 10,
		"/ratelimit/check/batch": 1 << 20, "/ratelimit/rules/import": 64 << 20,
	} {
		body := pad(most)
		if path == "/ratelimit/rules/import" {
			body = "}" + body[1:] // 64 MiB take long to read, unless the first byte is wrong
		}
		if a := f.do(http.MethodPost, path, body); a.status == 413 {
			t.Errorf("%s: %d bytes are too many", path, most)
		}
		f.do(http.MethodPost, path, pad(most+1)).want(413)
	}
}

// live serves a fixture over a real connection.
func live(t *testing.T, f *fixture) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f.echo)
	t.Cleanup(s.Close)
	return s
}

func TestServer_ChunkedBodiesAreReadAndBounded(t *testing.T) {
	f := newFixture(t, nil)
	s := live(t, f)
	for n, status := range map[int]int{100: 200, 64 << 10: 200, 64<<10 + 1: 413} {
		body := `{"user":"42"` + strings.Repeat(" ", n-13) + `}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/ratelimit/check",
			io.MultiReader(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("%d chunked bytes: status %d, want %d", n, res.StatusCode, status)
		}
	}
}

func TestServer_ATruncatedBodyIs400(t *testing.T) {
	f := newFixture(t, nil)
	s := live(t, f)
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /ratelimit/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
		"application/json\r\nContent-Length: 100\r\n\r\n{\"user\"")
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, _ := io.ReadAll(conn)
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 400")) {
		t.Errorf("got %.80s", answer)
	}
}

func TestServer_ABodyThatDoesNotArriveIs408(t *testing.T) {
	f := newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) {
		d.Now = func() time.Time { return time.Unix(1<<33, 0) } // deadlines are set from it: not in the past
	})
	s := httptest.NewUnstartedServer(f.echo)
	// As in service, where the time to write is over at the same moment.
	s.Config.ReadTimeout, s.Config.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
	s.Start()
	t.Cleanup(s.Close)
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /ratelimit/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
		"application/json\r\nContent-Length: 100\r\n\r\n{\"user\"")
	answer, _ := io.ReadAll(conn)
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 408")) {
		t.Errorf("got %.80s", answer)
	}
}

func TestServer_PanicEndsOneRequestOnly(t *testing.T) {
	var logged bytes.Buffer
	f := newFixture(t, []rules.Rule{perUser("r", 5)}, func(_ *decide.CheckerOptions, d *Deps) {
		d.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		d.Ready = func() error { panic("secret detail") }
	})
	a := f.do(http.MethodGet, "/readyz", "")
	if a.status != 500 || strings.Contains(a.body, "secret") || strings.Contains(a.body, "goroutine") {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if f.seen.panics != 1 || !strings.Contains(logged.String(), "secret detail") ||
		!strings.Contains(logged.String(), "server_test.go") {
		t.Errorf("counted %d, logged %s", f.seen.panics, logged.String())
	}
	f.check(`{"user":"42"}`)
}

func TestServer_UnknownErrorsAreBlandAndLogged(t *testing.T) {
	var logged bytes.Buffer
	f := newFixture(t, nil, func(_ *decide.CheckerOptions,
		d *Deps) {
		d.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	})
	f.book.err = errors.New("column xyz is missing")
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ratelimit/rules/1", nil)
	r.Host = f.host
	r.Header.Set("Authorization", "Bearer "+f.token)
	w := httptest.NewRecorder()
	f.echo.ServeHTTP(w, r)
	if w.Code != 500 || strings.Contains(w.Body.String(), "xyz") || !strings.Contains(logged.String(), "xyz") {
		t.Errorf("got %d %s, logged %s", w.Code, w.Body, &logged)
	}
}

func TestServer_ReadinessFollowsTheApp(t *testing.T) {
	var why error
	f := newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) { d.Ready = func() error { return why } })
	f.do(http.MethodGet, "/readyz", "").want(200)
	why = errors.New("draining")
	if a := f.do(http.MethodGet, "/readyz", "").want(503); !strings.Contains(a.body, "draining") {
		t.Errorf("got %s", a.body)
	}
	f.do(http.MethodGet, "/livez", "").want(200)
}

func TestServer_ReadinessTellsByWhichRulesItDecides(t *testing.T) {
	refused := int64(9)
	state := RuleState{Version: 8, Source: "copy", AgeMS: 61_000, RefusedVersion: &refused}
	f := newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) {
		d.RuleState, d.Trouble = func() RuleState { return state }, func() []string { return []string{"redis_unavailable"} }
	})
	const want = `{"status":"ok","rules":{"version":8,"source":"copy","age_ms":61000,"refused_version":9},` +
		`"trouble":["redis_unavailable"]}`
	if a := f.do(http.MethodGet, "/readyz", "").want(200); strings.TrimSpace(a.body) != want {
		t.Errorf("got %s, want %s", a.body, want)
	}
	state.RefusedVersion = nil
	if a := f.do(http.MethodGet, "/readyz", "").want(200); !strings.Contains(a.body, `"refused_version":null`) {
		t.Errorf("got %s", a.body)
	}
}

func TestServer_CallerTextNeverReachesHeadersOrLogs(t *testing.T) {
	var logged bytes.Buffer
	f := newFixture(t, nil, func(_ *decide.CheckerOptions,
		d *Deps) {
		d.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	})
	const evil = `evil\r\nX-Evil: 1\"`
	a := f.post("/ratelimit/check", `{"key":"`+evil+`","limit":0,"window_ms":1000,"request_id":"`+evil+`"}`)
	for name, value := range a.reply().Headers {
		if strings.ContainsAny(value, "\r\n") || strings.Contains(value, "evil") {
			t.Errorf("%s: %q", name, value)
		}
	}
	if len(a.header.Values("X-Evil")) > 0 || strings.Contains(logged.String(), "evil") {
		t.Errorf("headers %v, log %s", a.header, &logged)
	}
}

func TestServer_AddressesComeFromTrustedProxiesOnly(t *testing.T) {
	request := func() *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = "192.0.2.1:1"
		r.Header.Set("X-Forwarded-For", "198.51.100.9, 203.0.113.7")
		return r
	}
	if got := ipExtractor(nil)(request()); got != "192.0.2.1" {
		t.Errorf("without proxies: %s", got)
	}
	if got := ipExtractor([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")})(request()); got != "203.0.113.7" {
		t.Errorf("behind a trusted proxy: %s", got)
	}
	// Nobody is trusted for being near.
	near := request()
	near.Header.Set("X-Forwarded-For", "203.0.113.7, 127.0.0.1, 169.254.0.1, 10.1.1.1")
	for _, want := range []string{"10.1.1.1", "169.254.0.1", "127.0.0.1"} {
		if got := ipExtractor([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")})(near); got != want {
			t.Errorf("behind a trusted proxy that heard from %s: %s", want, got)
		}
		near.Header.Set("X-Forwarded-For", strings.TrimSuffix(near.Header.Get("X-Forwarded-For"), ", "+want))
	}
	if got := ipExtractor([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})(request()); got != "192.0.2.1" {
		t.Errorf("behind an unknown proxy: %s", got)
	}
}

func TestNew_DemandsWhatItNeeds(t *testing.T) {
	if _, err := New(Deps{}); err == nil {
		t.Error("a server without parts")
	}
	if _, err := decide.NewChecker(decide.CheckerOptions{}); err == nil {
		t.Error("a checker without parts")
	}
}
