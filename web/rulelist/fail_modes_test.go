package rulelist_test

import (
	"net/http"
	"net/url"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

func TestFailModes_AreEditedInPlaceAndGuarded(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	form := url.Values{"version": {"1"}, "fail_mode": {"closed"}, "back": {"/console/fail-modes?q=charges"}}
	if page := b.Post("/console/fail-modes/1", form); page.Header.Get("Location") != "/console/fail-modes?q=charges" ||
		w.Rules.List[0].FailMode != rules.FailClosed {
		t.Fatalf("%d %s", page.Code, w.Rules.List[0].FailMode)
	}
	form.Set("fail_mode", "open")
	if page := b.Post("/console/fail-modes/1", form); page.Code != http.StatusConflict ||
		w.Rules.List[0].FailMode != rules.FailClosed {
		t.Errorf("a stale version: %d", page.Code)
	}
	form.Set("fail_mode", "ajar")
	if page := b.Post("/console/fail-modes/1", form); page.Code != http.StatusUnprocessableEntity {
		t.Errorf("no such mode: %d", page.Code)
	}
	if page := webtest.Start(t, webtest.Failing).As(access.RoleViewer).Get("/console/fail-modes"); !page.Has(
		"10.0.0.7:6379", "timeout", "live data unavailable") || page.Has(">Save<") {
		t.Error("a failing fleet is not told")
	}
}
