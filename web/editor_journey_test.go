package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// signedIn is a tab in which someone with a role has signed in.
func signedIn(t *testing.T, w *webtest.World, url string, role access.Role) *browsertest.Tab {
	t.Helper()
	tab := tab(t)
	if err := tab.SetCookies(url, w.As(role).Cookies()); err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestJourney_CreateARuleByKeyboardAlone(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Empty)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	press := func(keys ...string) {
		t.Helper()
		for _, k := range keys {
			steps(t, tab, chromedp.KeyEvent(k))
		}
	}
	at := func() string { return value[string](t, tab, `document.activeElement.id`) }
	steps(t, tab, chromedp.Navigate(url+"/console/rules/new"), chromedp.WaitVisible("#f-name"))
	for range 60 {
		if press(kb.Tab); at() == "f-name" {
			break
		}
	}
	typed := map[string]string{"f-name": "searches", "f-method": "get", "f-route": "/v1/search", "f-scope": "user", "f-limit": "5", "f-window_ms": ""}
	for range 12 {
		press(typed[at()])
		if at() == "f-window_ms" {
			break
		}
		press(kb.Tab)
	}
	if at() != "f-window_ms" {
		t.Fatalf("focus is at %q", at())
	}
	steps(t, tab, chromedp.WaitVisible("#preview .plot"))
	if got := value[string](t, tab, `document.querySelector("#preview .summary").textContent`); !strings.Contains(got, "GET requests to /v1/search of the same user may number 5 per minute") {
		t.Errorf("the summary says %q", got)
	}
	if at() != "f-window_ms" {
		t.Errorf("the preview took the focus to %q", at())
	}
	press(kb.Enter)
	steps(t, tab, chromedp.WaitVisible("[data-flash]"))
	if r := stored(w, "searches"); r == nil || r.Limit != 5 || *r.Method != "GET" || r.Scope != "user" || r.WindowMS != 60_000 {
		t.Errorf("stored %+v", r)
	}
}

func TestJourney_TheSecondOfTwoChooses(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	edda, ada := signedIn(t, w, url, access.RoleEditor), signedIn(t, w, url, access.RoleAdmin)
	for _, tab := range []*browsertest.Tab{edda, ada} {
		steps(t, tab, chromedp.Navigate(url+"/console/rules/1/edit"), chromedp.WaitVisible("#f-limit"))
	}
	steps(t, ada, chromedp.SetValue("#f-limit", "120"), chromedp.SetValue("#f-description", "For the sale."), chromedp.Click(`button[value="save"]`), chromedp.WaitVisible("[data-flash]"))
	steps(t, edda, chromedp.SetValue("#f-limit", "90"), chromedp.Click(`button[value="save"]`), chromedp.WaitVisible(`input[name="take.limit"]`))
	edda.Forgive() // the browser notes the 409
	if got := value[string](t, edda, heading); got != "charges-per-user changed meanwhile" {
		t.Fatalf("the second sees %q", got)
	}
	if r := stored(w, "charges-per-user"); r.Limit != 120 {
		t.Fatalf("the first was overwritten with %d", r.Limit)
	}
	if value[bool](t, edda, `document.querySelector("main form").checkValidity()`) {
		t.Error("what both changed is chosen already")
	}
	steps(t, edda, chromedp.Click(`input[name="take.limit"][value="ours"]`), chromedp.Click("main .button.primary"), chromedp.WaitVisible("[data-flash]"))
	if r := stored(w, "charges-per-user"); r.Limit != 90 || r.Description != "For the sale." || r.Version != 3 {
		t.Errorf("merged %d, %q, version %d", r.Limit, r.Description, r.Version)
	}
}

func TestJourney_TheYAMLTabKeepsEdits(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	steps(t, tab,
		chromedp.Navigate(url+"/console/rules/2/edit"), chromedp.WaitVisible("#f-limit"),
		chromedp.SetValue("#f-limit", "77"), chromedp.Click(`button[value="yaml"]`), chromedp.WaitVisible("#f-yaml"),
	)
	text := value[string](t, tab, `document.getElementById("f-yaml").value`)
	if !strings.Contains(text, "limit: 77") {
		t.Fatalf("the text is\n%s", text)
	}
	steps(t, tab,
		chromedp.SetValue("#f-yaml", strings.Replace(text, "limit: 77", "limit: 78", 1)+"    fail_mode: closed\n"),
		chromedp.Click(`button[value="form"]`), chromedp.WaitVisible("#f-limit"),
	)
	if got := value[string](t, tab, `document.getElementById("f-limit").value + document.getElementById("f-fail_mode").value`); got != "78closed" {
		t.Fatalf("the form has %s", got)
	}
	steps(t, tab, chromedp.Click(`button[value="save"]`), chromedp.WaitVisible("[data-flash]"))
	if r := stored(w, "search-per-user"); r.Limit != 78 || r.FailMode != rules.FailClosed || r.Burst == nil {
		t.Errorf("stored %+v", r)
	}
}

func TestJourney_DeleteAsksFirst(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	steps(t, tab,
		chromedp.Navigate(url+"/console/rules/2/edit"), chromedp.WaitVisible("#f-limit"),
		chromedp.Click(`main > div > .button.danger`), chromedp.WaitVisible("#delete form"),
	)
	if stored(w, "search-per-user") == nil {
		t.Fatal("gone without a question")
	}
	steps(t, tab, chromedp.Click("#delete .danger"), chromedp.WaitVisible("[data-flash]"))
	if stored(w, "search-per-user") != nil {
		t.Error("still there")
	}
}

func TestJourney_AMethodThatIsNotRegisteredIsWarnedOfAndSaved(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Empty)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	beside := `document.getElementById("f-method-warning")`
	steps(t, tab, chromedp.Navigate(url+"/console/rules/new?sample=1"), chromedp.WaitVisible("#f-method"))
	if value[bool](t, tab, beside+`.checkVisibility()`) {
		t.Error("POST is warned of")
	}
	steps(t, tab, browsertest.Script(`document.querySelector("#f-method").value = ""`), chromedp.SendKeys("#f-method", "PSOT"))
	until(t, tab, beside+`.textContent.includes("PSOT is not a registered HTTP method") && `+beside+`.checkVisibility()`)
	until(t, tab, `document.querySelector("#preview .notice.warn")?.textContent.includes("PSOT")`)
	steps(t, tab, chromedp.SendKeys("#f-method", kb.Backspace+kb.Backspace+kb.Backspace+"UT"))
	until(t, tab, `!`+beside+`.checkVisibility() && !document.querySelector("#preview .notice.warn")`)
	steps(t, tab, browsertest.Script(`document.querySelector("#f-method").value = ""`), chromedp.SendKeys("#f-method", "PSOT"),
		chromedp.Click(".page-head .primary"), chromedp.WaitVisible("[data-flash]"))
	if len(w.Rules.List) != 1 || *w.Rules.List[0].Method != "PSOT" {
		t.Errorf("stored %+v", w.Rules.List)
	}
}

// TestJourney_AfterAFailedSaveTheFocusIsWhereTheErrorIs sends a form that is refused.
func TestJourney_AfterAFailedSaveTheFocusIsWhereTheErrorIs(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleAdmin)
	steps(t, tab, chromedp.Navigate(url+"/console/rules/1/edit"), chromedp.WaitReady("#editor"))
	const send = `const f = document.querySelector("#editor"); f.elements["limit"].value = "many"; HTMLFormElement.prototype.submit.call(f)`
	if err := tab.Leave(browsertest.Script(send)); err != nil {
		t.Fatal(err)
	}
	const frames = `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`
	if _, err := chromedp.Run(tab.Ctx, chromedp.Evaluate[bool](frames, chromedp.EvalAwaitPromise)); err != nil {
		t.Fatal(err)
	}
	if !value[bool](t, tab, `document.activeElement.matches(".notice.bad[role=alert]")`) {
		t.Errorf("the focus is at %s", value[string](t, tab, `document.activeElement.outerHTML.slice(0, 120)`))
	}
	tab.Forgive() // of the status
}
