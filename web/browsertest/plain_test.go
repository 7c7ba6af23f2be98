package browsertest_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// press clicks what leads to another page and waits for that.
func press(t *testing.T, tab *browsertest.Tab, selector string) {
	t.Helper()
	if !value[bool](t, tab, "document.querySelector("+strconv.Quote(selector)+")?.checkVisibility() ?? false") {
		t.Fatalf("%s is not to be seen at %s", selector, value[string](t, tab, "location.href"))
	}
	try(t, tab.Leave(browsertest.Script("document.querySelector("+strconv.Quote(selector)+").click()")))
}

// TestPlain_ARuleLivesAndDiesWithoutScripts signs in, makes a rule, edits it and
// deletes it in a browser that runs no script.
func TestPlain_ARuleLivesAndDiesWithoutScripts(t *testing.T) {
	t.Parallel()
	s := serve(t, webtest.Full, nil)
	tab := s.tab(t, "")
	try(t, tab.WithoutScripts())
	main := func() string { return value[string](t, tab, `document.querySelector("main").innerText`) }

	try(t, tab.Go(s.url+"/console/rules/new"))
	steps(t, tab, chromedp.SendKeys("#f-name", webtest.Names["editor"]),
		chromedp.SendKeys("#f-password", webtest.Password))
	press(t, tab, "main form button.primary")
	if got := value[string](t, tab, "location.pathname"); got != "/console/rules/new" {
		t.Fatalf("signing in led to %s", got)
	}
	if value[bool](t, tab, `[...document.querySelectorAll("time")].some(e => e.title)`) {
		t.Fatal("a script ran")
	}

	steps(t, tab, chromedp.SendKeys(field("name"), "plain-rule"))
	press(t, tab, save) // no limit yet
	if status, err := tab.Status(); err != nil || status != 422 ||
		value[string](t, tab, `document.querySelector('[name="name"]').value`) != "plain-rule" {
		t.Fatalf("a rule without a limit: %d, %v", status, err)
	}
	tab.Forgive()
	steps(t, tab,
		chromedp.SetValue(field("scope"), "user"), chromedp.SetValue(field("limit"), "7"),
		chromedp.SetValue(field("window_ms"), "1"),
	)
	press(t, tab, save)
	if text := main(); !strings.Contains(text, "plain-rule") || !strings.Contains(text, "7 per") {
		t.Fatalf("after it was made: %.300s", text)
	}

	press(t, tab, `main a[href$="/edit"]`)
	steps(t, tab, chromedp.SetValue(field("limit"), "8"))
	press(t, tab, save)
	if text := main(); !strings.Contains(text, "8 per") {
		t.Fatalf("after it was edited: %.300s", text)
	}

	press(t, tab, `main a[href$="/edit"]`)
	if !value[bool](t, tab, `document.querySelector('[popovertarget="delete"]').click(), document.getElementById("delete").matches(":popover-open")`) {
		t.Fatal("nothing asks before a rule is deleted")
	}
	press(t, tab, "#delete form button.danger")
	try(t, tab.Go(s.url+"/console/rules?q=plain-rule"))
	if text := main(); !strings.Contains(text, "No matching rules") {
		t.Fatalf("after it was deleted: %.300s", text)
	}
}

const save = `[name="do"][value="save"]`

func field(name string) string { return `#editor [name="` + name + `"]` }

// TestPlain_ThePagesSayWhenTheyWereLoaded: what moves on its own with scripts can be
// loaded again without, and no control is shown that would do nothing.
func TestPlain_ThePagesSayWhenTheyWereLoaded(t *testing.T) {
	t.Parallel()
	s := serve(t, webtest.Full, nil)
	tab := s.tab(t, "viewer")
	try(t, tab.WithoutScripts())
	try(t, tab.Go(s.url+"/console"))
	if text := value[string](t, tab, `document.querySelector(".live").innerText`); !strings.Contains(text, "Reload") {
		t.Errorf("the page says %q", text)
	}
	if value[bool](t, tab, `document.querySelector("[data-live-pause]").checkVisibility()`) {
		t.Error("a button to pause what does not move")
	}
}
