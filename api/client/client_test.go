package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(s.URL+"/", Options{Token: "slk_secret", CallTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestPost_SendsTheDocumentAndTheToken(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/ratelimit/check" || r.Header.Get("Authorization") != "Bearer slk_secret" ||
			string(body) != `{"key":"k"}` {
			t.Errorf("got %s %q %s", r.URL.Path, r.Header.Get("Authorization"), body)
		}
		_, _ = w.Write([]byte(`{"allowed":true}`))
	})
	got, err := c.Post(t.Context(), "/ratelimit/check", map[string]string{"key": "k"})
	if err != nil || string(got) != `{"allowed":true}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestPost_RefusalNamesEveryField(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"title":"Invalid","status":422,"errors":[{"field":"limit","message":"is needed"},{"field":"key","message":"is empty"}]}`))
	})
	_, err := c.Post(t.Context(), "/ratelimit/check", nil)
	var p *Problem
	if !errors.As(err, &p) || p.Status != 422 {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"422", "limit is needed", "key is empty"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("message %q lacks %q", err, want)
		}
	}
}

func TestPost_FollowsNoRedirect(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			t.Error("the token was carried elsewhere")
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	if _, err := c.Post(t.Context(), "/", nil); err == nil {
		t.Error("a redirect counted as an answer")
	}
	if a, err := c.Check(t.Context(), direct("k")); err != nil || !a.ByClient {
		t.Errorf("a check that is redirected: %+v, %v", a, err)
	}
}

func TestCheck_UsesTheCertificatesOfTheOptions(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) != 1 {
			t.Errorf("%d client certificates", len(r.TLS.PeerCertificates))
		}
		_, _ = io.WriteString(w, allowed(`{"key":"k"}`))
	}))
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	for _, trusted := range []bool{true, false} {
		config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: s.TLS.Certificates}
		if trusted {
			config.RootCAs = roots
		}
		c, err := New(s.URL, Options{TLS: config, Timeout: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		a, err := c.Check(t.Context(), direct("k"))
		c.Close()
		if err != nil || a.ByClient == trusted {
			t.Errorf("trusted %v: %+v, %v", trusted, a, err)
		}
	}
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	for _, tt := range []struct {
		base string
		opt  Options
		want string
	}{
		{base: "127.0.0.1:8080", want: "must look like"},
		{base: "ftp://127.0.0.1", want: "must look like"},
		{base: "http://", want: "must look like"},
		{base: "http://a?token=x", want: "must look like"},
		{base: "http://a", opt: Options{FailMode: "ajar"}, want: "FailMode"},
		{base: "http://a", opt: Options{FailMode: FailLocal}, want: "LocalLimit"},
		{base: "http://a", opt: Options{FailMode: FailLocal, LocalLimit: &LocalLimit{Limit: 5}}, want: "LocalLimit: window"},
		{base: "http://a", opt: Options{FailMode: FailLocal, LocalLimit: &LocalLimit{Limit: 5, Window: time.Microsecond}},
			want: "milliseconds"},
		{base: "http://a", opt: Options{Timeout: -1}, want: "negative"},
	} {
		if c, err := New(tt.base, tt.opt); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("New(%q, %+v) = %v, %v; want an error with %q", tt.base, tt.opt, c, err, tt.want)
		}
	}
}

func TestClose_EndsEveryMethod(t *testing.T) {
	c, f := newFake(t, Options{})
	c.Close()
	c.Close()
	_, err := c.Check(t.Context(), direct("k"))
	_, err2 := c.Batch(t.Context(), []Check{direct("k")})
	_, err3 := c.Charge(t.Context(), direct("k"))
	_, err4 := c.Do(t.Context(), http.MethodGet, "/readyz", "", nil)
	for _, err := range []error{err, err2, err3, err4} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	if len(f.seen()) != 0 {
		t.Errorf("calls after Close: %v", f.seen())
	}
}

// A response whose size nobody expects is an error, never cut short.
func TestSend_BoundsTheResponse(t *testing.T) {
	c, f := newFake(t, Options{})
	f.set(nil, func(fakeCall) *failure { return &failure{status: 200, body: "{}", size: maxAnswer + 1} })
	if _, err := c.Charge(t.Context(), direct("k")); !errors.Is(err, errLarge) {
		t.Errorf("got %v", err)
	}
}

func TestEncode_RefusesTextThatIsNotUTF8(t *testing.T) {
	c, f := newFake(t, Options{})
	for _, q := range []Check{{User: "a\xff"}, {Attributes: map[string]string{"t": "\xfe"}}, {Key: "\xc3"},
		{User: "u", Fields: map[string]int64{"\xff": 1}}} {
		var p *Problem
		if _, err := c.Check(t.Context(), q); !errors.As(err, &p) || p.Status != 400 || len(p.Errors) != 1 {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if len(f.seen()) != 0 {
		t.Errorf("sent %v", f.seen())
	}
}
