package client

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestNew_UsesAChangedTokenOfItsFile(t *testing.T) {
	var sent atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		sent.Store(r.Header.Get("Authorization"))
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("slk_first\n")
	c, err := New(s.URL, Options{TokenFile: file, CallTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	uses := func(token string) bool {
		t.Helper()
		if _, err := c.Post(t.Context(), "/", nil); err != nil {
			t.Fatal(err)
		}
		return sent.Load() == "Bearer "+token
	}
	if !uses("slk_first") {
		t.Errorf("the first call sent %v", sent.Load())
	}
	write("slk_second\n")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !uses("slk_second") {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the second token was never sent")
		}
	}
	write("")
	if !uses("slk_second") {
		t.Errorf("with an empty file the client sent %v", sent.Load())
	}
}

func TestNew_RefusesAFileWithoutAToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if _, err := New("http://a", Options{TokenFile: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := New("http://a", Options{TokenFile: file, Token: "slk_hunter2"}); err == nil ||
		!strings.Contains(err.Error(), "TokenFile") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("both: %v", err)
	}
}
