package browsertest_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/web/webtest"
)

// TestKeyboard_HelpsAndSearchesOnEveryPage also holds every page to the order of
// its text: nothing jumps the queue of the Tab key.
func TestKeyboard_HelpsAndSearchesOnEveryPage(t *testing.T) {
	t.Parallel()
	s := serve(t, webtest.Full, nil)
	tab := s.tab(t, "admin")
	for _, shown := range webtest.Gallery() {
		if shown.Role == "" || shown.Form != nil || shown.Prepare != nil || shown.Kind != webtest.Full {
			continue
		}
		s.show(t, tab, &shown)
		tab.Forgive() // what they complain about is for TestPages
		steps(t, tab, chromedp.KeyEvent("?"))
		if !value[bool](t, tab, `document.getElementById("help").matches(":popover-open")`) {
			t.Errorf("%s: ? does not help", shown.Name)
		}
		steps(t, tab, chromedp.KeyEvent(kb.Escape))
		if value[bool](t, tab, `document.getElementById("help").matches(":popover-open")`) {
			t.Errorf("%s: Escape does not close the help", shown.Name)
		}
		if value[bool](t, tab, `!!document.querySelector("[data-search]")`) {
			steps(t, tab, chromedp.KeyEvent("/"))
			if !value[bool](t, tab, `document.activeElement.matches("[data-search]")`) {
				t.Errorf("%s: / does not lead to the search", shown.Name)
			}
		}
		if n := value[int](t, tab, `document.querySelectorAll("[tabindex]:not([tabindex='0'], [tabindex='-1'])").length`); n > 0 {
			t.Errorf("%s: %d elements jump the queue of Tab", shown.Name, n)
		}
		steps(t, tab, chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent(kb.Tab))
		if !value[bool](t, tab, `document.activeElement !== document.body`) {
			t.Errorf("%s: Tab leads nowhere", shown.Name)
		}
	}
}

// TestKeyboard_FocusOutlastsLiveUpdates puts the focus on a link inside what a
// stream replaces, lets two messages come, and looks where the focus is.
func TestKeyboard_FocusOutlastsLiveUpdates(t *testing.T) {
	t.Parallel()
	s := serve(t, webtest.Full, nil)
	tab := s.tab(t, "viewer")
	try(t, tab.Go(s.url+"/console"))
	const setup = `
		window.messages = 0;
		document.addEventListener("htmx:sse:after:message", () => window.messages++);
		window.held = document.querySelector("#live-denied a");
		held.focus();`
	steps(t, tab, chromedp.WaitReady("#live-denied a"))
	_ = value[bool](t, tab, "{"+setup+"}; true")
	place := value[float64](t, tab, `held.getBoundingClientRect().top`)
	if _, err := chromedp.Run(tab.Ctx, chromedp.Poll[bool](`window.messages >= 2`)); err != nil {
		t.Fatal("no messages came: ", err)
	}
	if !value[bool](t, tab, `document.activeElement === held && held.isConnected`) {
		t.Errorf("the focus went to %s", value[string](t, tab, `document.activeElement.outerHTML.slice(0, 200)`))
	}
	if now := value[float64](t, tab, `held.getBoundingClientRect().top`); now != place {
		t.Errorf("the page jumped by %v pixels", now-place)
	}
}
