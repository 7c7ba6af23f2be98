package web_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/access"
	"sluice/web/webtest"
)

// TestJourney_AKeyIsRaisedForAnHourFromItsDenial goes from a denial to Explain, back to the denial, and from Explain
// raises the key, with the keyboard alone.
func TestJourney_AKeyIsRaisedForAnHourFromItsDenial(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	steps(t, tab,
		chromedp.Navigate(url+"/console/explain?denial=3"), chromedp.WaitVisible(".verdict"),
		chromedp.Focus(`.verdict a[href*="#request-3"]`), chromedp.KeyEvent(kb.Enter),
		chromedp.WaitVisible("#live-samples"),
	)
	if !value[bool](t, tab, `document.querySelector("#request-3:target") !== null`) {
		t.Error("the way back does not lead to the denial")
	}
	steps(t, tab,
		chromedp.WaitVisible(`.sheet a[href*="/console/explain"]`), // the address opens the request beside the list
		chromedp.Focus(`.sheet a[href*="/console/explain"]`), chromedp.KeyEvent(kb.Enter),
		chromedp.WaitVisible(".acts-row"),
		chromedp.Focus(`.acts-row button[aria-label*="Raise to 200 for an hour"][aria-label$="charges-per-user"]`), chromedp.KeyEvent(kb.Enter),
		chromedp.WaitVisible(`form[action="/console/keys/lift"]`),
	)
	got := shownText(t, tab, "main")
	for _, want := range []string{"Override saved.", "of 200", "Raised for an hour.", "Rules that count this key",
		"search-per-user", "Decisions in 24 hours, by rule"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
	here := value[string](t, tab, `location.href`)
	w.Clock.Add(61 * time.Minute)
	steps(t, tab, chromedp.Navigate(here), chromedp.WaitVisible(`form.stack[action="/console/keys/override"]`))
	if got := shownText(t, tab, "main"); !strings.Contains(got, "of 100") {
		t.Errorf("after an hour:\n%s", got)
	}
}
