package api

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/access"
	"sluice/rules"
)

// direct asks Check what the request would ask the route, and returns the response that it stands for.
func (f *fixture) direct(r *http.Request, body string) (status int, header http.Header, answer string) {
	f.t.Helper()
	client := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1234} // that of httptest
	out, problem := f.server.Check(r.Context(), callOf(r), client, []byte(r.Header.Get("Traceparent")),
		[]byte(body), []byte("before"))
	answer, found := strings.CutPrefix(string(out), "before")
	if !found {
		f.t.Fatalf("Check overwrote what was there: %s", out)
	}
	header = http.Header{}
	if problem == nil {
		return http.StatusOK, header, answer
	}
	for name, value := range problem.Header {
		header.Set(name, value)
	}
	return problem.Status, header, answer
}

func TestCheck_AnswersAsItsRoute(t *testing.T) {
	secret, hash := access.NewSecret()
	other, otherHash := access.NewSecret()
	closed := perUser("closed", 1)
	closed.FailMode = rules.FailClosed
	tokens := access.NewKeyring([]access.Token{{ID: 1, Name: "gateway", Hash: hash, Scopes: []access.Scope{"check"}},
		{ID: 2, Name: "reader", Hash: otherHash, Scopes: []access.Scope{"rules:read"}}})
	for _, tt := range []struct {
		name   string
		keys   *access.Keyring
		body   string
		header []string
		fail   error
	}{
		{name: "open mode", body: `{"user":"42"}`},
		{name: "forwarded", body: `{"user":"42"}`, header: []string{"Via", "1.1 proxy"}},
		{name: "a denial", body: `{"user":"42","weight":2}`},
		{name: "no token", keys: tokens, body: `{"user":"42"}`},
		{name: "a token", keys: tokens, body: `{"user":"42"}`, header: []string{"Authorization", "Bearer " + secret}},
		{name: "a token that may not", keys: tokens, body: `{"user":"42"}`,
			header: []string{"Authorization", "Bearer " + other}},
		{name: "another scheme", keys: tokens, body: `{"user":"42"}`, header: []string{"Authorization", "Basic " + secret}},
		{name: "not JSON", body: `{"user":`}, {name: "nothing", body: ``}, {name: "invalid", body: `{"weight":-1}`},
		{name: "the store is unavailable", body: `{"user":"42"}`, fail: errAway},
		{name: "a bug", body: `{"user":"42"}`, fail: errors.New("a bug")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ask := func(answer func(*fixture, *http.Request) (int, http.Header, string)) (int, http.Header, string, int) {
				f := newFixture(t, []rules.Rule{closed})
				if tt.keys != nil {
					f.access.Store(tt.keys)
				}
				f.store.fail(tt.fail)
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, checkPath, strings.NewReader(tt.body))
				r.Host = f.host
				r.Header.Set("Content-Type", "application/json")
				for i := 0; i+1 < len(tt.header); i += 2 {
					r.Header.Set(tt.header[i], tt.header[i+1])
				}
				status, header, body := answer(f, r)
				return status, header, body, len(f.store.asks)
			}
			status, header, body, asks := ask(func(f *fixture, r *http.Request) (int, http.Header, string) {
				return f.direct(r, tt.body)
			})
			wantStatus, wantHeader, wantBody, wantAsks := ask(func(f *fixture, r *http.Request) (int, http.Header, string) {
				w := httptest.NewRecorder()
				f.echo.ServeHTTP(w, r)
				for _, name := range []string{"Content-Type", "Content-Length", "Cache-Control", "X-Content-Type-Options"} {
					w.Header().Del(name)
				}
				return w.Code, w.Header(), w.Body.String()
			})
			if status != wantStatus || body != wantBody || asks != wantAsks {
				t.Errorf("got %d %s after %d calls, want %d %s after %d", status, body, asks, wantStatus, wantBody, wantAsks)
			}
			if diff := cmp.Diff(wantHeader, header); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCheck_ContainsAPanic(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 1)})
	f.server.deps.Checker = nil
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, checkPath, nil)
	r.Host = f.host
	status, _, body := f.direct(r, `{"user":"42"}`)
	if status != http.StatusInternalServerError || f.seen.panics != 1 {
		t.Errorf("got %d %s, %d panics", status, body, f.seen.panics)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(body), &doc); err != nil || doc["type"] != "/problems/internal" {
		t.Errorf("%s: %v", body, err)
	}
}
