package web_test

import (
	"strconv"
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
	typed := map[string]string{"f-name": "searches", "f-method": "get", "f-route": "/v1/search", "f-scope": "user",
		"f-limit": "5", "f-window_ms": ""}
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
	if got := value[string](t, tab, `document.querySelector("#preview .summary").textContent`); !strings.Contains(got,
		"Each user may send 5 GET requests per minute to /v1/search") {
		t.Errorf("the summary says %q", got)
	}
	if at() != "f-window_ms" {
		t.Errorf("the preview took the focus to %q", at())
	}
	press(kb.Enter)
	steps(t, tab, chromedp.WaitVisible("[data-flash]"))
	if r := w.Rules.Named("searches"); r == nil || r.Limit != 5 || *r.Method != "GET" || r.Scope != "user" ||
		r.WindowMS != 60_000 {
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
	steps(t, ada, chromedp.SetValue("#f-limit", "120"), chromedp.SetValue("#f-description", "For the sale."),
		chromedp.Click(`button[value="save"]`), chromedp.WaitVisible("[data-flash]"))
	steps(t, edda, chromedp.SetValue("#f-limit", "90"), chromedp.Click(`button[value="save"]`),
		chromedp.WaitVisible(`input[name="take.limit"]`))
	edda.Forgive() // the browser notes the 409
	if got := value[string](t, edda, heading); got != "charges-per-user was changed in the meantime" {
		t.Fatalf("the second sees %q", got)
	}
	if r := w.Rules.Named("charges-per-user"); r.Limit != 120 {
		t.Fatalf("the first was overwritten with %d", r.Limit)
	}
	if value[bool](t, edda, `document.querySelector("main form").checkValidity()`) {
		t.Error("what both changed is chosen already")
	}
	steps(t, edda, chromedp.Click(`input[name="take.limit"][value="ours"]`), chromedp.Click("main .button.primary"),
		chromedp.WaitVisible("[data-flash]"))
	if r := w.Rules.Named("charges-per-user"); r.Limit != 90 || r.Description != "For the sale." || r.Version != 3 {
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
		chromedp.SetValue("#f-yaml", strings.NewReplacer("limit: 77", "limit: 78", "fail_mode: open", "fail_mode: closed").
			Replace(text)),
		chromedp.Click(`button[value="form"]`), chromedp.WaitVisible("#f-limit"),
	)
	if got := value[string](t, tab, `document.getElementById("f-limit").value + document.getElementById("f-fail_mode").value`); got != "78closed" {
		t.Fatalf("the form has %s", got)
	}
	steps(t, tab, chromedp.Click(`button[value="save"]`), chromedp.WaitVisible("[data-flash]"))
	if r := w.Rules.Named("search-per-user"); r.Limit != 78 || r.FailMode != rules.FailClosed || r.Burst == nil {
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
	if w.Rules.Named("search-per-user") == nil {
		t.Fatal("gone without a question")
	}
	steps(t, tab, chromedp.Click("#delete .danger"), chromedp.WaitVisible("[data-flash]"))
	if w.Rules.Named("search-per-user") != nil {
		t.Error("still there")
	}
}

func TestJourney_AMethodThatIsNotRegisteredIsWarnedOfAndSaved(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Empty)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	beside := `document.getElementById("f-method-warning")`
	steps(t, tab, chromedp.Navigate(url+"/console/rules/new?template=payments-per-user"),
		chromedp.WaitVisible("#f-method"))
	if value[bool](t, tab, beside+`.checkVisibility()`) {
		t.Error("POST is warned of")
	}
	steps(t, tab, browsertest.Script(`document.querySelector("#f-method").value = ""`),
		chromedp.SendKeys("#f-method", "PSOT"))
	until(t, tab, beside+`.textContent.includes("PSOT is not a registered HTTP method") && `+beside+`.checkVisibility()`)
	until(t, tab, `document.querySelector("#preview .notice.warn")?.textContent.includes("PSOT")`)
	steps(t, tab, chromedp.SendKeys("#f-method", kb.Backspace+kb.Backspace+kb.Backspace+"UT"))
	until(t, tab, `!`+beside+`.checkVisibility() && !document.querySelector("#preview .notice.warn")`)
	steps(t, tab, browsertest.Script(`document.querySelector("#f-method").value = ""`),
		chromedp.SendKeys("#f-method", "PSOT"),
		chromedp.Click(".page-head .primary"), chromedp.WaitVisible("[data-flash]"))
	if len(w.Rules.List) != 1 || *w.Rules.List[0].Method != "PSOT" {
		t.Errorf("stored %+v", w.Rules.List)
	}
}

// TestJourney_AfterAFailedSaveTheFocusIsWhereTheErrorIs sends forms of several pages as
// people do, by typing and pressing Enter, and looks where the focus is then.
func TestJourney_AfterAFailedSaveTheFocusIsWhereTheErrorIs(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleAdmin)
	for _, tt := range []struct{ path, typed, want string }{
		{"/console/rules/1/edit", `limit=many`, ".notice.bad[role=alert]"},
		{"/console/people/new", `name=grace&by=password&password=short`, "#f-password"},
		{"/console/tokens/new", `name=ci`, "#f-name"},
		{"/console/pools/new", `name=shop&limit=0&window_ms=0`, "#f-window_ms"},
		{"/console/profiles/new", `name=mail&facts.user=X-User&routes=users`, `[name='facts.user']`},
		{"/console/rules/1/overrides/new", `key=ip:1&limit=many`, "#f-limit"},
		{"/console/import", `text=rules: many`, "[role=alert]"},
		{"/console/account", `password=short&repeat=short`, "#f-current, #f-password"},
	} {
		steps(t, tab, chromedp.Navigate(url+tt.path), chromedp.WaitReady("main form"))
		send := `const typed = new URLSearchParams(` + strconv.Quote(tt.typed) + `), first = [...typed.keys()][0];
			const form = [...document.querySelectorAll("main form")].find((f) => f.elements[first]);
			for (const [name, value] of typed) if (form.elements[name]) form.elements[name].value = value;
			form.elements[first].focus(); form.noValidate = true; form.requestSubmit()`
		if err := tab.Leave(browsertest.Script(send)); err != nil {
			t.Fatal(tt.path, err)
		}
		if status, err := tab.Status(); err != nil || status != 422 {
			t.Errorf("%s: %d, %v", tt.path, status, err)
		}
		if !value[bool](t, tab, `document.activeElement.matches("main :is(`+tt.want+`)")`) {
			t.Errorf("%s: the focus is at %s", tt.path, value[string](t, tab, `document.activeElement.outerHTML.slice(0, 120)`))
		}
		tab.Forgive() // of the status
	}
}
