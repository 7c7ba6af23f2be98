package web_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/access"
	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// tab is a window of the browser. The test fails on whatever its pages complain
// about: errors, exceptions, violations of the policy.
func tab(t *testing.T) *browsertest.Tab {
	t.Helper()
	c, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	tab, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.Show(1280, 800, false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range tab.Complaints() {
			t.Errorf("the page complains: %s", c)
		}
		tab.Close()
	})
	return tab
}

// serve lets the browser reach a world.
func serve(t *testing.T, w *webtest.World) string {
	t.Helper()
	s := httptest.NewServer(w)
	t.Cleanup(func() {
		s.CloseClientConnections() // streams have no end of their own
		s.Close()
	})
	return s.URL
}

func steps(t *testing.T, tab *browsertest.Tab, all ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	for i, s := range all {
		if err := chromedp.Do(tab.Ctx, s); err != nil {
			where, _ := chromedp.Run(tab.Ctx, chromedp.Location())
			t.Fatalf("step %d at %s: %v", i+1, where, err)
		}
	}
}

func value[T any](t *testing.T, tab *browsertest.Tab, expression string) T {
	t.Helper()
	v, err := chromedp.Run(tab.Ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

const heading = `document.querySelector("h1").textContent`

func TestJourney_FirstStartToTheRules(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Fresh)
	w.Rules.List = webtest.SampleRules()
	url, tab := serve(t, w), tab(t)
	steps(t, tab,
		chromedp.Navigate(url+"/console/welcome?token="+w.WelcomeSecret),
		chromedp.SetValue("#f-name", "grace"),
		chromedp.SendKeys("#f-password", "long enough for this"),
		chromedp.SendKeys("#f-repeat", "long enough for this"+kb.Enter),
		chromedp.WaitVisible("[data-flash]"),
	)
	if got := value[string](t, tab, heading); got != "Overview" {
		t.Fatalf("after the first account: %s", got)
	}
	steps(t, tab,
		chromedp.Click(`.side a[href="/console/rules"]`), chromedp.WaitVisible("[data-search]"),
		chromedp.SendKeys("[data-search]", "login"+kb.Enter), chromedp.WaitVisible(`.filters a`),
	)
	if got := value[[]string](t, tab, `[...document.querySelectorAll("tbody th")].map(e => e.firstChild.textContent.trim())`); len(got) != 1 || got[0] != "logins-per-address" {
		t.Errorf("found %v", got)
	}
	if got := value[string](t, tab, "location.search"); got != "?q=login" {
		t.Errorf("the address says %q, want only what is searched", got)
	}
	if got := value[string](t, tab, `document.querySelector("tbody time").textContent`); strings.Contains(got, "UTC") {
		t.Errorf("times are not the viewer's: %s", got)
	}
}

func TestJourney_WrongPasswordKeepsTheName(t *testing.T) {
	t.Parallel()
	url, tab := serve(t, world(t, webtest.Full)), tab(t)
	steps(t, tab,
		chromedp.Navigate(url+"/console/rules"), chromedp.WaitVisible("#f-name"),
		chromedp.SendKeys("#f-name", "edda"), chromedp.SendKeys("#f-password", "a guess"+kb.Enter),
		chromedp.WaitVisible("[role=alert]"),
	)
	if got := value[string](t, tab, `document.getElementById("f-name").value`); got != "edda" {
		t.Errorf("the name became %q", got)
	}
	tab.Forgive() // the browser notes the 422
	steps(t, tab, chromedp.SendKeys("#f-password", webtest.Password+kb.Enter), chromedp.WaitVisible("[data-search]"))
	if got := value[string](t, tab, heading); got != "Rules" {
		t.Errorf("signing in led to %s, want the page that was asked for", got)
	}
}

func TestJourney_KeyboardOnly(t *testing.T) {
	t.Parallel()
	url, tab := serve(t, world(t, webtest.Full)), tab(t)
	steps(t, tab, chromedp.Navigate(url+"/console/sign-in"), chromedp.WaitVisible("#f-name"))
	press := func(keys string) { t.Helper(); steps(t, tab, chromedp.KeyEvent(keys)) }
	at := func() string {
		return value[string](t, tab, `document.activeElement.id || document.activeElement.textContent.trim()`)
	}
	if at() != "f-name" { // the page is one form, and begins in it
		t.Fatalf("focus is at %q", at())
	}
	press("ada")
	press(kb.Tab)
	press(webtest.Password)
	press(kb.Enter)
	steps(t, tab, chromedp.WaitVisible(".tiles"))
	press(kb.Tab)
	if at() != "Skip to content" {
		t.Errorf("the first stop is %q", at())
	}
	press(kb.Enter)
	if at() != "main" {
		t.Errorf("skipping led to %q", at())
	}
	press("?")
	if !value[bool](t, tab, `document.getElementById("help").matches(":popover-open")`) {
		t.Error("? does not help")
	}
	press(kb.Escape)
	press("g")
	press("r")
	until(t, tab, `document.readyState === "complete" && location.pathname === "/console/rules"`) // its keys are bound
	press("/")
	press(kb.Backspace) // the protocol types the key though the page has used it
	press("quota")
	if got := value[string](t, tab, `document.activeElement.value`); got != "quota" {
		t.Errorf("/ leads to %q", got)
	}
	press(kb.Enter)
	steps(t, tab, chromedp.WaitVisible(".filters a"))
}

func TestRoles_AreAllInTheWorld(t *testing.T) {
	for _, r := range access.Roles() {
		if webtest.Names[r] == "" {
			t.Errorf("nobody is %s", r)
		}
	}
}
