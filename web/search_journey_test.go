package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/access"
	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// TestJourney_EverythingIsFoundFromAnywhere opens the search with the keyboard on a page, inside one of its fields,
// and goes to a key, a rule and a page.
func TestJourney_EverythingIsFoundFromAnywhere(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	open := chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	const focused = `document.activeElement.id === "search-text"`
	find := func(from, text, hit, want string) {
		t.Helper()
		steps(t, tab, chromedp.Navigate(url+from), chromedp.WaitReady("#search"))
		if from == "/console/rules" {
			steps(t, tab, chromedp.Focus("[data-search]"))
		}
		steps(t, tab, open)
		until(t, tab, focused)
		steps(t, tab, chromedp.KeyEvent(text))
		until(t, tab, `[...document.querySelectorAll("#search-results a")].some(a => a.innerText.startsWith("`+hit+`")) &&
			!document.querySelector("#search-results [role=status]").innerText.startsWith("Type")`)
		for range 20 {
			steps(t, tab, chromedp.KeyEvent(kb.ArrowDown))
			if value[bool](t, tab, `document.activeElement.innerText.startsWith("`+hit+`")`) {
				break
			}
		}
		steps(t, tab, chromedp.KeyEvent(kb.Enter))
		until(t, tab, `(location.pathname + location.search).startsWith("`+want+`")`)
	}

	// An answer that comes while a result has the focus leaves it there, and gives it back to the field if the result
	// is gone.
	steps(t, tab, chromedp.Navigate(url+"/console"), chromedp.WaitReady("#search"), open)
	until(t, tab, focused)
	answer := func(text string) {
		t.Helper()
		value[bool](t, tab, `(() => { document.querySelector("#search-text").value = "`+text+`";
			document.querySelector("#search-results [role=status]").innerText = "waiting";
			htmx.trigger("#search-form", "input"); return true })()`)
		until(t, tab, `document.querySelector("#search-results [role=status]").innerText !== "waiting"`)
	}
	answer("user") // set and not typed: each letter would have an answer of its own
	steps(t, tab, chromedp.KeyEvent(kb.ArrowDown+kb.ArrowDown))
	second := value[string](t, tab, `document.activeElement.href`)
	answer("user")
	if now := value[string](t, tab, `document.activeElement.href || document.activeElement.id`); now != second || second == "" {
		t.Errorf("the focus went from %s to %s", second, now)
	}
	answer("nothing has this name")
	until(t, tab, focused)

	find("/console", "user:42", "user:42", "/console/keys?key=user%3A42&rule=")
	find("/console/rules", "user charges", "charges-per-user", "/console/rules/1")
	find("/console/incidents", "audit", "Audit log", "/console/audit")

	steps(t, tab, chromedp.Navigate(url+"/console"), chromedp.WaitReady("#search"), open)
	until(t, tab, focused)
	steps(t, tab, chromedp.KeyEvent(kb.Escape))
	until(t, tab, `!document.querySelector("#search").matches(":popover-open")`)

	// Shortcuts of a single key can be turned off; this one stays.
	steps(t, tab, chromedp.KeyEvent("?"), chromedp.WaitVisible("#help [data-shortcuts] input"),
		chromedp.Focus("#help [data-shortcuts] input"), chromedp.KeyEvent(" "), chromedp.KeyEvent(kb.Escape),
		chromedp.Navigate(url+"/console/rules"), chromedp.WaitReady("[data-search]"), chromedp.KeyEvent("?/"))
	if value[bool](t, tab, `document.querySelector("#help").matches(":popover-open") ||
		document.activeElement === document.querySelector("[data-search]")`) {
		t.Error("a shortcut that was turned off acts")
	}

	// Without a script, the link leads to a page, whose form is a page as well.
	steps(t, tab, chromedp.Navigate(url+"/console/search"), chromedp.WaitReady("main #search-text"), open)
	until(t, tab, focused)
	steps(t, tab, chromedp.KeyEvent("apikey:sk_live_secret"))
	until(t, tab, `document.querySelector("main #search-results a")?.innerText.includes("sha256")`)
	steps(t, tab, chromedp.Click("#search-form button"))
	until(t, tab, `document.querySelector("main #search-text")?.defaultValue.startsWith("apikey:") &&
		document.querySelector("main #search-results a")?.innerText.includes("sha256")`)
	here := value[string](t, tab, `location.href + " " + [...document.querySelectorAll("main a")].map(a => a.href).join(" ")`)
	if strings.Contains(here, "sk_live") {
		t.Errorf("the credential is in an address: %s", here)
	}
}

// TestJourney_EnterOpensTheFirstResult of the text that was typed, not of an earlier one, and leads to a form that is
// filled in.
func TestJourney_EnterOpensTheFirstResult(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	enter := func(from, text, want string) {
		t.Helper()
		steps(t, tab, chromedp.Navigate(url+from), chromedp.WaitReady("#search"),
			chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
		until(t, tab, `document.activeElement.id === "search-text"`)
		steps(t, tab, chromedp.KeyEvent(text+kb.Enter))
		until(t, tab, `(location.pathname + location.search) === "`+want+`"`)
	}
	enter("/console", "audit", "/console/audit")
	enter("/console", "block user:43", "/console/rules/1/overrides/new?key=user%3A43&kind=blocked")
	until(t, tab, `document.getElementById("f-key")?.value === "user:43"`)
	enter("/console/rules", "shadow charges-per-user", "/console/rules/1/turn?to=shadow")
	enter("/console/search", "explain user:42 POST /v1/charges",
		"/console/explain?method=POST&route=%2Fv1%2Fcharges&user=42")

	// Without results, Enter stays. A later text has results of its own, and they wait for another Enter.
	steps(t, tab, chromedp.Navigate(url+"/console/search"), chromedp.WaitReady("main #search-text"),
		chromedp.Focus("main #search-text"), chromedp.KeyEvent("nothing has this name"+kb.Enter))
	until(t, tab, `document.querySelector("#search-results").innerText.includes("Nothing found")`)
	steps(t, tab, browsertest.Script(`document.querySelector("#search-text").select()`),
		chromedp.KeyEvent("audit"))
	until(t, tab, `document.querySelector("#search-results a")?.innerText.includes("Audit log")`)
	if at := value[string](t, tab, `location.pathname`); at != "/console/search" {
		t.Errorf("went to %s", at)
	}
}
