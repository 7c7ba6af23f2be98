package rulepages_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/rulefile"
	"sluice/web/rulepages"
	"sluice/web/webtest"
)

func TestPreview_UsesTheRealArithmetic(t *testing.T) {
	const now = 1_700_000_010_000
	limit := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 10, Window: 60_000}
	p := rulepages.Simulate(limit, 0, "boundary", 100, now, nil, "r")
	if p.AllowedUnits != 20 || p.DeniedUnits != 0 {
		t.Errorf("a fixed window lets %d through across its end, denies %d; want 20 and 0", p.AllowedUnits, p.DeniedUnits)
	}
	limit.Algorithm = limiter.SlidingWindowLog
	if p = rulepages.Simulate(limit, 0, "boundary", 100, now, nil, "r"); p.AllowedUnits != 10 || p.DeniedUnits != 10 {
		t.Errorf("a log lets %d through, denies %d; want 10 and 10", p.AllowedUnits, p.DeniedUnits)
	}
	if p = rulepages.Simulate(limit, 0, "steady", 80, now, nil, "r"); p.DeniedUnits != 0 || p.AllowedUnits != 24 {
		t.Errorf("below the limit %d pass, %d are denied; want 24 and 0", p.AllowedUnits, p.DeniedUnits)
	}
	if p = rulepages.Simulate(limit, 0, "burst", 300, now, nil, "r"); p.AllowedUnits != 20 || p.DeniedUnits != 40 {
		t.Errorf("of two bursts %d pass, %d are denied; want 20 and 40", p.AllowedUnits, p.DeniedUnits)
	}
	for _, a := range limiter.Algorithms() {
		l := limiter.Limit{Algorithm: a, Count: 5, Window: 1000}
		if a.Bucketed() {
			l.Burst = 5
		}
		if a == limiter.SlidingWindowBuckets {
			l.Buckets = 60
		}
		p := rulepages.Simulate(l, 0, "steady", 300, now, nil, "r")
		var drawn, listed int64
		for _, s := range p.Slots {
			drawn += s.Allowed + s.Denied
		}
		for _, s := range p.Rows {
			listed += s.Allowed + s.Denied
		}
		if drawn != 45 || listed != 45 || p.AllowedUnits+p.DeniedUnits != 45 || p.AllowedUnits < 5 || p.DeniedUnits < 5 {
			t.Errorf("%s: %d drawn, %d listed, %d pass and %d are denied of 45", a, drawn, listed, p.AllowedUnits, p.DeniedUnits)
		}
	}
}

func TestYAML_IsTheSameRule(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleEditor)
	for _, r := range policies() {
		r.Normalize()
		form := rulepages.ValuesOf(&r)
		form.Set("is_active", "on")
		r.IsActive = true
		form.Set("do", "yaml")
		form.Set("id", "7")
		form.Set("version", "3")
		page := b.Post("/console/rules/preview", form)
		_, text, _ := strings.Cut(page.Body, "<textarea")
		_, text, _ = strings.Cut(text, ">")
		text, _, _ = strings.Cut(text, "</textarea>")
		text = html.UnescapeString(text)
		if page.Code != http.StatusOK || !page.Has(`name="version" value="3"`, `action="/console/rules/7"`) {
			t.Fatalf("%s: %d", r.Name, page.Code)
		}
		f, err := rulefile.Parse([]byte(text))
		if err != nil || len(rules.Diff(&f.Rules[0], &r)) > 0 {
			t.Fatalf("%s: %v\n%s", r.Name, err, text)
		}
		back := b.Post("/console/rules/preview", url.Values{"as": {"yaml"}, "do": {"form"}, "yaml": {text}, "id": {"7"}, "version": {"3"}})
		if back.Code != http.StatusOK || !back.Has(`value="`+r.Name+`"`, `name="version" value="3"`, "Edit as YAML") {
			t.Errorf("%s: back %d", r.Name, back.Code)
		}
	}
}
