package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// What the address, the sheet and the focus are.
const (
	hash      = `location.hash`
	inSheet   = `document.querySelector("#sheet").open && document.querySelector("#sheet").contains(document.activeElement)`
	sheetSays = `document.querySelector("#sheet-body").innerText`
	focusRow  = `!document.querySelector("#sheet").open && document.activeElement.dataset.request`
)

// openRow opens the list of denials and presses Enter on the row of a request.
func openRow(t *testing.T, tab *browsertest.Tab, url, id string) {
	t.Helper()
	steps(t, tab, chromedp.Navigate(url+"/console/denials"), chromedp.WaitVisible("[data-request='"+id+"']"),
		chromedp.Focus("[data-request='"+id+"']"), chromedp.KeyEvent(kb.Enter))
	until(t, tab, hash+` === "#request-`+id+`" && `+inSheet+` && `+sheetSays+`.includes("As it was then")`)
}

func TestJourney_ARequestOpensInTheSheetByKeyboard(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	steps(t, tab, chromedp.Navigate(url+"/console/denials"), chromedp.WaitVisible("[data-request='0']"))

	// In the list, j and k move the focus. In a field they are letters.
	steps(t, tab, chromedp.KeyEvent("jjjk"))
	until(t, tab, focusRow+` === "1"`)
	steps(t, tab, chromedp.Focus("[data-search]"), chromedp.KeyEvent("jk"))
	if got := value[string](t, tab, `document.querySelector("[data-search]").value + location.hash`); got != "jk" {
		t.Errorf("the field and the address have %q", got)
	}

	openRow(t, tab, url, "1")
	title := func() string { return shownText(t, tab, "#sheet-title") }
	if !strings.HasPrefix(title(), "Request 2 of ") {
		t.Errorf("the title is %q", title())
	}
	list := value[string](t, tab, `document.querySelector("#live-samples").innerText`)
	w.Fleet.Deny(history.Request{ID: "late", Rule: "charges-per-user", Key: "user:late", Mode: rules.ModeEnforce,
		Status: 429, At: webtest.Now.UnixMilli()})
	steps(t, tab, chromedp.KeyEvent("jj"))
	until(t, tab, hash+` === "#request-3" && `+sheetSays+`.includes("user:43")`)
	steps(t, tab, chromedp.KeyEvent("k"))
	until(t, tab, hash+` === "#request-2" && `+sheetSays+`.includes("user:42")`)
	for range 30 { // the focus stays inside
		steps(t, tab, chromedp.KeyEvent(kb.Tab))
		if !value[bool](t, tab, inSheet+` || document.activeElement === document.body`) {
			t.Fatalf("the focus went to %s", value[string](t, tab, `document.activeElement.outerHTML.slice(0, 200)`))
		}
	}
	if now := value[string](t, tab, `document.querySelector("#live-samples").innerText`); now != list {
		t.Error("the list moved under the sheet")
	}
	steps(t, tab, chromedp.KeyEvent(kb.Escape))
	until(t, tab, focusRow+` === "2" && location.hash === ""`)
	steps(t, tab, chromedp.KeyEvent("k"))
	until(t, tab, focusRow+` === "1"`)

	// The first request has none before it, and the shortcuts can be turned off.
	openRow(t, tab, url, "late")
	steps(t, tab, chromedp.KeyEvent("k"))
	_ = value[bool](t, tab, `localStorage.setItem("shortcuts", "off"), true`)
	steps(t, tab, chromedp.KeyEvent("j"), chromedp.Click("[data-sheet=next]"))
	until(t, tab, hash+` === "#request-0"`)

	// The search takes the place of the sheet.
	steps(t, tab, chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	until(t, tab, `document.activeElement.id === "search-text" && !document.querySelector("#sheet").open`)
}

func TestJourney_TheSheetHasAnAddress(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	shut := `!document.querySelector("#sheet").open && location.hash === ""`

	// A click anywhere on a row opens it, a click on another link of the row does not.
	steps(t, tab, chromedp.Navigate(url+"/console/denials?rule=charges-per-user"),
		chromedp.WaitVisible("[data-denial='2']"), chromedp.Click("[data-denial='2'] [data-label=Limit]"))
	until(t, tab, hash+` === "#request-2" && `+inSheet+` && `+sheetSays+`.includes("user:42")`)
	steps(t, tab, chromedp.KeyEvent("jj"))
	until(t, tab, hash+` === "#request-4"`)
	steps(t, tab, browsertest.Script(`history.back()`))
	until(t, tab, shut+` && location.search === "?rule=charges-per-user"`)
	steps(t, tab, browsertest.Script(`history.forward()`))
	until(t, tab, hash+` === "#request-4" && `+inSheet+` && `+sheetSays+`.includes("user:44")`)
	steps(t, tab, chromedp.Reload(), chromedp.WaitVisible("#sheet[open]"))
	until(t, tab, sheetSays+`.includes("user:44")`)
	steps(t, tab, chromedp.Click("[data-sheet=close]"))
	until(t, tab, shut)
	steps(t, tab, chromedp.Click("[data-denial='2'] [data-label=Rule] a"))
	until(t, tab, `location.pathname === "/console/rules/1"`)

	// A link that somebody sent opens the sheet, and closing it leaves the list.
	steps(t, tab, chromedp.Navigate(url+"/console/requests?outcome=allowed#request-3"),
		chromedp.WaitVisible("#sheet[open]"))
	until(t, tab, sheetSays+`.includes("user:43")`)
	steps(t, tab, chromedp.KeyEvent(kb.Escape))
	until(t, tab, shut+` && location.search === "?outcome=allowed"`)

	// A request that is gone, and a node that does not answer.
	steps(t, tab, chromedp.Navigate(url+"/console/denials#request-gone"), chromedp.WaitVisible("#sheet[open]"))
	until(t, tab, sheetSays+`.includes("no longer stored")`)
	w.Fleet.SetErr(rules.ErrUnavailable)
	steps(t, tab, browsertest.Script(`location.hash = "#request-2"`))
	until(t, tab, sheetSays+`.includes("Redis is unreachable")`)
	tab.Forgive() // the browser logs each answer that is an error
}

func TestJourney_TheSheetIsAccessibleAndFitsAPhone(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	if err := tab.Checker(); err != nil {
		t.Fatal(err)
	}
	for _, dark := range []bool{false, true} {
		for _, width := range []int64{320, 1440} {
			if err := tab.Show(width, 800, dark); err != nil {
				t.Fatal(err)
			}
			openRow(t, tab, url, "s5") // hostile text
			steps(t, tab, browsertest.Script(`document.querySelectorAll("#sheet details").forEach(d => d.open = true)`))
			violations, err := tab.Violations()
			if err != nil || len(violations) > 0 {
				t.Errorf("%d px, dark %v: %q, %v", width, dark, violations, err)
			}
			if over := value[int](t, tab, `Math.max(...["sheet", "sheet-body"].map(id => document.getElementById(id))
				.map(e => e.scrollWidth - e.clientWidth))`); over > 0 {
				t.Errorf("%d px: the sheet is %d px wider", width, over)
			}
			if !strings.Contains(shownText(t, tab, "#sheet-body"), `<script>alert(1)`) {
				t.Error("the text of the caller is missing")
			}
		}
	}
}

// Without JavaScript, the link of a row leads to the page of the request.
func TestJourney_WithoutScriptsARequestHasAPage(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	if err := tab.WithoutScripts(); err != nil {
		t.Fatal(err)
	}
	steps(t, tab, chromedp.Navigate(url+"/console/denials"))
	if err := tab.Leave(browsertest.Script(`document.querySelector("[data-request='2']").click()`)); err != nil {
		t.Fatal(err)
	}
	where := value[string](t, tab, `location.pathname + " " + document.querySelector(".sampled .then").innerText`)
	if !strings.HasPrefix(where, "/console/requests/2 charges-per-user") {
		t.Errorf("at %s", where)
	}
}
