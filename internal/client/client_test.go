package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return New(s.URL+"/", "slk_secret")
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
}

func TestPost_NoServerSaysHowToStartOne(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	_, err := New(s.URL, "").Post(t.Context(), "/", nil)
	if err == nil || !strings.Contains(err.Error(), "sluice serve") {
		t.Errorf("got %v", err)
	}
}
