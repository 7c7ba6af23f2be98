package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

func TestJourney_AFailModeIsEditedInPlace(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	form := `form[action="/console/fail-modes/2"] `
	steps(t, tab,
		chromedp.Navigate(url+"/console/fail-modes?q=search"), chromedp.WaitVisible(form+"select"),
		chromedp.SetValue(form+"select", "closed"), chromedp.Click(form+"button"), chromedp.WaitVisible("[data-flash]"),
	)
	if got := shownText(t, tab, "[data-flash]"); !strings.Contains(got,
		"Fail mode of \"search-per-user\" set to closed.") {
		t.Errorf("it says %q", got)
	}
	if got := value[string](t, tab, "location.pathname + location.search"); got != "/console/fail-modes?q=search" {
		t.Errorf("it led to %s", got)
	}
	r := w.Rules.Named("search-per-user")
	if r == nil || r.FailMode != rules.FailClosed {
		t.Fatalf("stored %+v", r)
	}
	edited := r.Clone()
	edited.Limit = 61
	if _, err := w.Rules.UpdateRule(t.Context(), rules.Actor{Kind: "user", Name: "ada"}, edited, r.Version); err != nil {
		t.Fatal(err)
	}
	steps(t, tab, chromedp.SetValue(form+"select", "local"), chromedp.Click(form+"button"),
		chromedp.WaitVisible("main [role=alert]"))
	tab.Forgive() // the browser notes the 409
	if got := shownText(t, tab, "main"); !strings.Contains(got, "ada changed search-per-user") ||
		!strings.Contains(got, "61") {
		t.Errorf("the conflict:\n%s", got)
	}
	steps(t, tab, chromedp.Click("main form .button.primary"), chromedp.WaitVisible("[data-flash]"))
	if r := w.Rules.Named("search-per-user"); r.FailMode != rules.FailLocal || r.Limit != 61 {
		t.Errorf("stored %s with a limit of %d", r.FailMode, r.Limit)
	}
}

func TestJourney_TickedRulesAreChangedTogether(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	steps(t, tab,
		chromedp.Navigate(url+"/console/rules?q=per-user"),
		chromedp.WaitVisible(`input[aria-label="Select charges-per-user"]`),
		chromedp.Click(`input[aria-label="Select charges-per-user"]`),
		chromedp.Click(`input[aria-label="Select search-per-user"]`),
		chromedp.Click(`button[value="shadow"]`), chromedp.WaitVisible("[data-flash]"),
	)
	if got := value[string](t, tab, "location.search"); got != "?q=per-user" {
		t.Errorf("it led to %s", got)
	}
	if got := shownText(t, tab, "[data-flash]"); !strings.Contains(got, "2 rules") {
		t.Errorf("it says %q", got)
	}
	for _, name := range []string{"charges-per-user", "search-per-user"} {
		if r := w.Rules.Named(name); r.Mode != rules.ModeShadow {
			t.Errorf("%s is in mode %s", name, r.Mode)
		}
	}
}
