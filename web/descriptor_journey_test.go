package web_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

// A rule for Envoy is created, corrected and edited in the form, which shows the fields of one kind of rule at a time.
func TestJourney_ARuleForEnvoy(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	const domain, entries, save = `[name="descriptor.domain"]`, `[name="descriptor.entries"]`, `.page-head [value="save"]`
	steps(t, tab, chromedp.Navigate(url+"/console/rules/new"), chromedp.WaitVisible(`[name="scope"]`),
		chromedp.WaitNotVisible(domain), chromedp.SetValue(`[name="scope"]`, "user"),
		chromedp.Click(`[name="kind"][value="descriptor"]`), chromedp.WaitVisible(domain),
		chromedp.WaitNotVisible(`[name="scope"]`),
		chromedp.SetValue(`[name="name"]`, "envoy-pay"), chromedp.SetValue(`[name="limit"]`, "5"),
		chromedp.SetValue(domain, "shop"), chromedp.SetValue(entries, "path~/pay\nuser"), chromedp.Click(save),
		chromedp.WaitVisible("main [role=alert]"))
	tab.Forgive() // the browser notes the 422
	if got := shownText(t, tab, "main [role=alert]"); !strings.Contains(got, "line 1: pattern must contain *") {
		t.Errorf("the error: %s", got)
	}
	steps(t, tab, chromedp.SetValue(entries, "path~/pay*\nuser"), chromedp.Click(save),
		chromedp.WaitVisible("[data-flash]"))
	if got := shownText(t, tab, ".statement"); !strings.Contains(got, "5 per minute per path and user, for") ||
		!strings.Contains(got, "shop: path=/pay*, user") {
		t.Errorf("the rule says %q", got)
	}
	r := w.Rules.Named("envoy-pay")
	if r == nil || r.Scope != "" || r.Descriptor == nil || len(r.Descriptor.Entries) != 2 {
		t.Fatalf("stored %+v", r)
	}
	steps(t, tab, chromedp.Click(`.page-head a[href$="/edit"]`), chromedp.WaitVisible(domain),
		chromedp.WaitNotVisible(`[name="scope"]`), chromedp.Click("#more-envoy summary"),
		chromedp.WaitVisible(`[name="quota"]`), chromedp.Click(`[name="quota"]`),
		chromedp.SetValue(`[name="addend"]`, rules.AddendCharge), chromedp.SetValue(`[name="replaces"]`, "a\nb\n"),
		chromedp.SetValue(`[name="metadata"]`, "team=pay"), chromedp.Click(save), chromedp.WaitVisible("[data-flash]"))
	r = w.Rules.Named("envoy-pay")
	if !r.Quota || r.Addend != rules.AddendCharge || !slices.Equal(r.Replaces, []string{"a", "b"}) ||
		r.Metadata["team"] != "pay" {
		t.Errorf("stored %+v", r)
	}
}
