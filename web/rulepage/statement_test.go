package rulepage_test

import (
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

func TestRulePage_ShowsTheStatement(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	if page := b.Get("/console/rules/1"); page.Has(`id="statement"`) {
		t.Error("a rule without keep_periods has a statement")
	}
	webtest.Keep(w, false)
	page := b.Get("/console/rules/1")
	_, section, _ := strings.Cut(page.Body, `id="statement"`)
	newest, older := strings.Index(section, "1,234 tokens"), strings.Index(section, "90,500 tokens")
	if newest < 0 || older < newest || !strings.Contains(section, `data-label="Keys" class="number">2<`) {
		t.Errorf("%d %s", page.Code, section)
	}
	w.Statements.Err = rules.ErrUnavailable
	if page := b.Get("/console/rules/1"); !page.Has("The statement could not be read.") || page.Has("1,234 tokens") {
		t.Errorf("a statement that cannot be read: %d", page.Code)
	}
}

// The number by which stores count for a meter is on no page of its rule.
func TestRulePage_ShowsThatAMeterHasNoLimit(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	webtest.Keep(w, true)
	b := w.As(access.RoleEditor)
	for path, want := range map[string]string{
		"/console/rules/1": "no limit", "/console/rules": "unlimited, counted per calendar month per user",
		"/console/rules/1/edit": "and none is denied", "/console/rules/1/overrides": "charges-per-user",
	} {
		page := b.Get(path)
		if page.Code != 200 || !page.Has(want) || page.HasAny("9007199254", "9,007,199", "Use of limit</span>") {
			t.Errorf("%s: %d\n%s", path, page.Code, page.Body)
		}
	}
}
