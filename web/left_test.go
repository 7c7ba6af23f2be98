package web_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/web/webtest"
)

// TestPages_ABrowserThatHasLeftIsNoError: neither its page nor the page of an error can be rendered.
func TestPages_ABrowserThatHasLeftIsNoError(t *testing.T) {
	w := world(t, webtest.Full)
	var lines bytes.Buffer
	d := w.Deps(nil)
	d.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	if err := w.Serve(d); err != nil {
		t.Fatal(err)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	for _, path := range []string{"/console/sign-in", "/console/nothing"} {
		w.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(left, http.MethodGet, path, http.NoBody))
	}
	if strings.Contains(lines.String(), "level=ERROR") {
		t.Errorf("the log is\n%s", lines.String())
	}
}
