package transfer_test

import (
	"net/http"
	"net/url"
	"testing"

	"sluice/internal/access"
	"sluice/web/webtest"
)

func TestOverrideImport_ShowsFirstAndNamesBadLines(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	const csv = "key,limit,reason\nuser:77,500,contract\n"
	const path = "/console/rules/1/overrides/import"
	page := b.Post(path, url.Values{"csv": {csv}, "do": {"plan"}})
	if page.Code != http.StatusOK || !page.Has("The import creates 1", "user:77") || len(w.Overrides.List) != 3 {
		t.Fatalf("the plan: %d, %d overrides", page.Code, len(w.Overrides.List))
	}
	form := func() url.Values {
		plan, of := page.Field("plan"), page.Field("of")
		return url.Values{"csv": {csv}, "do": {"apply"}, "plan": {plan}, "of": {of}}
	}
	for name, change := range map[string]func(url.Values){
		"no plan":      func(f url.Values) { f.Del("plan") },
		"another file": func(f url.Values) { f.Set("csv", csv+"user:78,1,\n") },
		"prune added":  func(f url.Values) { f.Set("prune", "on") },
		"another plan": func(f url.Values) { f.Set("plan", "7") },
	} {
		f := form()
		change(f)
		if page := b.Post(path, f); page.Code != http.StatusConflict || !page.Has("nothing was changed", "import creates") ||
			len(w.Overrides.List) != 3 {
			t.Errorf("%s: %d, %d overrides", name, page.Code, len(w.Overrides.List))
		}
	}
	if page := b.Post(path, form()); page.Code != http.StatusSeeOther || len(w.Overrides.List) != 4 {
		t.Errorf("the import: %d", page.Code)
	}
	if page := b.Post("/console/rules/1/overrides/import",
		url.Values{"csv": {"key,limit\nuser:1,many\n"},
			"do": {"apply"}}); page.Code != http.StatusUnprocessableEntity || !page.Has("line[2].limit", "user:1,many") {
		t.Errorf("a bad line: %d\n%s", page.Code, page.Body)
	}
}
