package web_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

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

// From the page of a rule for Envoy to its explanation, by keyboard.
func TestJourney_ARuleForEnvoyIsExplained(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	webtest.AddDescriptors(w)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	const domain, list, button = `#f-domain`, `#f-entries`, `#envoy button`
	steps(t, tab, chromedp.Navigate(url+"/console/rules/13"), chromedp.Focus(`.page-head a[href*="/explain?rule=13"]`),
		chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(domain))
	const filled = `["f-domain", "f-entries"].map(id => document.getElementById(id).value).join("|")`
	if got := value[string](t, tab, filled); got != "shop|path=/v1/pay*\nuser=" {
		t.Errorf("the form has %q", got)
	}
	steps(t, tab, chromedp.SetValue(list, "path=/v1/pay/now\nuser=42\n\nplan=staff"), chromedp.Focus(list),
		chromedp.KeyEvent(kb.Tab+"61"+kb.Tab+kb.Enter), chromedp.WaitVisible(".verdict"))
	for _, want := range []string{"denied, 429", "by envoy-payments", "Retrying will not help"} {
		if got := shownText(t, tab, ".verdict"); !strings.Contains(got, want) {
			t.Errorf("the verdict lacks %q: %s", want, got)
		}
	}
	if got := shownText(t, tab, "main table"); !strings.Contains(got, "path=/v1/pay/now, user=42") ||
		!strings.Contains(got, "unlimited") {
		t.Errorf("the descriptors:\n%s", got)
	}
	steps(t, tab, chromedp.SetValue(list, "user"), chromedp.Click(button),
		chromedp.WaitVisible("#f-entries[aria-invalid]"))
	tab.Forgive() // the browser notes the 422
	if !value[bool](t, tab, `document.activeElement.id === "f-entries"`) {
		t.Error("the focus is not at the error")
	}
	steps(t, tab, chromedp.SetValue(list, "path=/v1/pay/now\nuser=42"), chromedp.SetValue("#f-addend", ""),
		chromedp.Click(button), chromedp.WaitVisible(`main table a[href^="/console/keys"]`),
		chromedp.Click(`main table a[href^="/console/keys"]`), chromedp.WaitVisible("main .facts"))
	if got := shownText(t, tab, "main"); !strings.Contains(got, "60 of 60") {
		t.Errorf("the key's page says\n%s", got)
	}
}
