package web_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/web/people"
	"sluice/web/webtest"
)

// leavesIn is an audit log whose readers leave after the first part of it.
type leavesIn struct{ people.AuditLog }

func (leavesIn) ListAudit(_ context.Context, q audit.Query) ([]audit.Entry, error) {
	if q.BeforeID > 0 {
		return nil, context.Canceled
	}
	return slices.Repeat([]audit.Entry{{ID: 1, At: webtest.Now, Action: "create"}}, q.Limit), nil
}

// TestPages_ABrowserThatHasLeftIsNoError: neither its page nor the page of an error can be rendered.
func TestPages_ABrowserThatHasLeftIsNoError(t *testing.T) {
	w := world(t, webtest.Full)
	var lines bytes.Buffer
	d := w.Deps(nil)
	d.People.Audit = leavesIn{d.People.Audit}
	d.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	if err := w.Serve(d); err != nil {
		t.Fatal(err)
	}
	b := w.As(access.RoleAdmin)
	left, leave := context.WithCancel(t.Context())
	leave()
	for _, path := range []string{"/console/sign-in", "/console/nothing", "/console/events?of=traffic&by=route&once=1"} {
		r := httptest.NewRequestWithContext(left, http.MethodGet, path, http.NoBody)
		for name, value := range b.Cookies() {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		w.ServeHTTP(httptest.NewRecorder(), r)
	}
	if page := b.Get("/console/events?of=traffic&by=route&once=1"); page.Code != http.StatusOK {
		t.Errorf("the live parts of the traffic page: %d", page.Code)
	}
	func() {
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("the download ended with %v", err)
			}
		}()
		b.Get("/console/audit/download")
	}()
	if strings.Contains(lines.String(), "level=ERROR") {
		t.Errorf("the log is\n%s", lines.String())
	}
}
