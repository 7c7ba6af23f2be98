package web_test

import (
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/web/webtest"
)

func TestDenied_TheRulePageSaysWhichEditItWas(t *testing.T) {
	w := world(t, webtest.Full)
	webtest.WrongEdit(w)
	b := w.As(access.RoleEditor)
	page := b.Get("/console/rules/2")
	if text := said(page); !strings.Contains(text, "search-per-user denies 12 × more since version 3") ||
		!strings.Contains(text, "Changed: limit 60 to 3, burst 20 to 3.") || !page.Has(`"/console/rules/2/rollback?to=2"`) {
		t.Error(text)
	}
	if text := said(page); !strings.Contains(text, "The rule decides as it does since version 3, 2026-11-21 11:57 UTC") {
		t.Errorf("the doctor: %s", text)
	}
	if page := b.Get("/console/rules/1"); page.Has(`class="remark"`) {
		t.Error("a rule that does not deny more says that it does")
	}
	if page := b.Get("/console/events?rule=2&version=3&once=1"); !page.Has("#live-risen", "12 × more") {
		t.Errorf("the stream says %s", page.Body)
	}
}
