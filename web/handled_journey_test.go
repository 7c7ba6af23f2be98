package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/web/webtest"
)

// An alert is acknowledged and another silenced on a phone, and the bell counts what is left.
func TestJourney_AnAlertIsAcknowledgedAndAnotherSilenced(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	if err := tab.Show(320, 800, false); err != nil {
		t.Fatal(err)
	}
	steps(t, tab, chromedp.Navigate(url+"/console/alerts"), chromedp.WaitVisible("#live-active .alerts"),
		chromedp.Click(`#live-active a[href$="acknowledges=event-9"]`), chromedp.WaitVisible(".alert-text"),
		chromedp.SendKeys("#f-reason", "The customer knows."), chromedp.Click("main form .button.primary"),
		chromedp.WaitVisible("#live-active .handled"),
		chromedp.Click(`#live-active a[href$="alert=event-8"]`), chromedp.WaitVisible("#f-kind"),
		chromedp.SendKeys("#f-reason", "A sale."), chromedp.Click("main form .button.primary"),
		chromedp.WaitVisible("table.silences"))
	until(t, tab, `document.querySelectorAll("table.silences tbody tr").length === 2`)
	const name = `document.querySelector("#bell .hidden").textContent`
	if got := value[string](t, tab, name); got != "Alerts: 1 active, besides 2 acknowledged or silenced" {
		t.Errorf("the bell says %q", got)
	}
	if wide := value[bool](t, tab, `document.documentElement.scrollWidth > innerWidth`); wide {
		t.Error("the silences are wider than a phone")
	}
	steps(t, tab, chromedp.Click(`table.silences form[action$="/2/end"] button`), chromedp.WaitVisible("[data-flash]"))
	until(t, tab, name+` === "Alerts: 2 active, besides 1 acknowledged or silenced"`)
}

// The filters of a list are saved, opened from the plain list, renamed and deleted.
func TestJourney_AViewIsSavedAndOpened(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	steps(t, tab, chromedp.Navigate(url+"/console/rules?mode=shadow"), chromedp.WaitVisible(".saved summary"),
		chromedp.Click(".saved summary"), chromedp.WaitVisible(`.saved input[name="name"]`),
		chromedp.SendKeys(`.saved input[name="name"]`, "Shadow rules"), chromedp.Click(".saved form .button"),
		chromedp.WaitVisible(`.saved a[aria-current="page"]`),
		chromedp.Navigate(url+"/console/rules"), chromedp.WaitVisible(".saved nav a"))
	if got := shownText(t, tab, ".saved nav a"); got != "Shadow rules" {
		t.Errorf("the view is called %q", got)
	}
	steps(t, tab, chromedp.Click(".saved nav a"), chromedp.WaitVisible(`.saved a[aria-current="page"]`))
	if got := value[string](t, tab, `location.pathname + location.search`); got != "/console/rules?mode=shadow" {
		t.Errorf("the view leads to %s", got)
	}
	const field = `main td input[name="name"]`
	steps(t, tab, chromedp.Click(`.saved a[href="/console/views"]`), chromedp.WaitVisible(field),
		chromedp.SetValue(field, "Tried rules"), chromedp.Click("main td form .button"), chromedp.WaitVisible("[data-flash]"))
	until(t, tab, `document.querySelector("main tbody th").textContent === "Tried rules"`)
	steps(t, tab, chromedp.Click("main td .button.danger"), chromedp.WaitVisible(".empty"))
}
