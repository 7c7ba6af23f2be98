package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/access"
	"sluice/web/webtest"
)

// A webhook by keyboard alone: created, its secret seen once, tested, and its delivery listed with its body.
func TestJourney_AWebhookIsCreatedAndTestedByKeyboard(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Empty)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleAdmin)
	// reach moves the focus with Tab to what a selector matches.
	reach := func(selector string) {
		t.Helper()
		for range 80 {
			if value[bool](t, tab, `document.activeElement.matches('`+selector+`')`) {
				return
			}
			steps(t, tab, chromedp.KeyEvent(kb.Tab))
		}
		t.Fatalf("Tab does not reach %s", selector)
	}
	steps(t, tab, chromedp.Navigate(url+"/console"), chromedp.WaitVisible("main h1"))
	reach("#bell")
	if !value[bool](t, tab, `getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
		t.Error("the focus on the bell cannot be seen")
	}
	steps(t, tab, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#live-active"))
	reach(`main a[href="/console/alerts/webhooks"]`)
	steps(t, tab, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(".empty"))
	reach(`main a[href="/console/alerts/webhooks/new"]`)
	steps(t, tab, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#f-name"))
	reach("#f-name")
	steps(t, tab, chromedp.KeyEvent("pager"))
	reach("#f-url")
	steps(t, tab, chromedp.KeyEvent("https://pager.example/v1/x"))
	reach("#f-kind-key_usage")
	steps(t, tab, chromedp.KeyEvent(" "))
	reach("main form .button.primary")
	steps(t, tab, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#secret"))
	secret := value[string](t, tab, `document.getElementById("secret").textContent`)
	if !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("the secret is %q", secret)
	}
	if got := w.Webhooks.Objects.List; len(got) != 1 || len(got[0].Kinds) != 1 || got[0].Kinds[0] != "key_usage" {
		t.Fatalf("stored %+v", got)
	}
	reach(`main form[action$="/test"] button`)
	steps(t, tab, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("[data-test]"))
	if got := shownText(t, tab, "[data-test]"); !strings.Contains(got, "the receiver answered 200 after 34 ms") {
		t.Errorf("the test says %q", got)
	}
	reach(".deliveries summary")
	steps(t, tab, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(".deliveries pre"))
	body := value[string](t, tab, `document.querySelector(".deliveries pre").textContent`)
	if !strings.Contains(body, "This is a test of the webhook pager") ||
		value[bool](t, tab, `document.documentElement.outerHTML.includes("whsec_")`) {
		t.Errorf("the delivery's body is %q, or the secret is shown again", body)
	}
}

// The bell of a live page follows the alerts, and its name says what it shows.
func TestJourney_TheBellFollowsTheAlerts(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	const name = `document.querySelector("#bell .hidden").textContent`
	steps(t, tab, chromedp.Navigate(url+"/console"), chromedp.WaitVisible("#bell"))
	if got := value[string](t, tab, name); got != "Alerts: 3 active" {
		t.Errorf("the bell says %q", got)
	}
	w.Alerts.Change(func(f *webtest.Alerts) { f.On = f.On[:1] })
	until(t, tab, name+` === "Alerts: 1 active" && document.querySelector("#bell .bell-figure").textContent === "1"`)
	steps(t, tab, chromedp.Click("#bell"), chromedp.WaitVisible("#live-active .alerts"))
	until(t, tab, `document.querySelector("[data-live]").dataset.state === "live"`)
	w.Alerts.Change(func(f *webtest.Alerts) { f.On = nil })
	until(t, tab, `document.querySelector("#live-active").textContent.includes("No alerts.")`)
	until(t, tab, name+` === "Alerts: none active" && !document.querySelector("#bell .bell-figure")`)

	w.Alerts.Change(func(f *webtest.Alerts) { f.On = f.Past[:2] })
	if err := tab.Show(390, 800, false); err != nil {
		t.Fatal(err)
	}
	steps(t, tab, chromedp.Navigate(url+"/console/rules"), chromedp.WaitVisible("#bell-top .bell-figure"),
		chromedp.Click("#bell-top"), chromedp.WaitVisible("#live-active .alerts"))
}
