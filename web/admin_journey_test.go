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

// newPassword is what someone who is invited chooses.
const newPassword = "seven unrelated words"

func TestJourney_SomeoneIsInvitedAndGetsAnotherRole(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	ada := signedIn(t, w, url, access.RoleAdmin)
	steps(t, ada,
		chromedp.Navigate(url+"/console/people/new"), chromedp.WaitVisible("#f-name"),
		chromedp.SendKeys("#f-name", "grace"), chromedp.SetValue("#f-role", "editor"), chromedp.SetValue("#f-by", "link"),
		chromedp.Click("main form .button.primary"), chromedp.WaitVisible("#link"),
	)
	link := value[string](t, ada, `document.getElementById("link").textContent`)
	if !strings.HasPrefix(link, url+"/console/invite?token=") {
		t.Fatalf("the link is %q", link)
	}

	grace := tab(t)
	steps(t, grace,
		chromedp.Navigate(link), chromedp.WaitVisible("#f-password"),
		chromedp.SendKeys("#f-password", newPassword), chromedp.SendKeys("#f-repeat", newPassword+kb.Enter),
		chromedp.WaitVisible("[data-flash]"),
		chromedp.Click(`form[action="/console/sign-out"] button`), chromedp.WaitVisible("#f-name"),
		chromedp.SendKeys("#f-name", "grace"), chromedp.SendKeys("#f-password", newPassword+kb.Enter),
		chromedp.WaitVisible("#live-tiles"),
		chromedp.Click(`.side a[href="/console/rules"]`), chromedp.WaitVisible(`a[href="/console/rules/new"]`),
	)
	again := tab(t)
	steps(t, again, chromedp.Navigate(link), chromedp.WaitVisible("main h1"))
	again.Forgive() // the browser notes the 410
	if got := value[bool](t, again, `document.querySelector("form[action='/console/invite']") === null`); !got {
		t.Error("the link works twice")
	}

	steps(t, ada,
		chromedp.Navigate(url+"/console/people"), chromedp.WaitVisible("tbody"),
		chromedp.Click(`//tbody//a[text()="grace"]`), chromedp.WaitVisible("#f-role"), chromedp.SetValue("#f-role", "viewer"),
		chromedp.Click(`form[action$="/role"] button`), chromedp.WaitVisible("[data-flash]"),
	)
	steps(t, grace, chromedp.Click(`a[href="/console/rules/new"]`), chromedp.WaitVisible("#f-password"))
	if got := value[string](t, grace, "location.pathname"); got != "/console/sign-in" {
		t.Fatalf("another role left the session open: %s", got)
	}
	steps(t, grace, chromedp.SendKeys("#f-name", "grace"), chromedp.SendKeys("#f-password", newPassword+kb.Enter),
		chromedp.WaitVisible("main h1"))
	until(t, grace, `document.querySelector("h1").textContent === "Permission denied"`)
	grace.Forgive() // the browser notes the 403
}

func TestJourney_ATokenIsMadeShownOnceAndRevoked(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	ada := signedIn(t, w, url, access.RoleAdmin)
	steps(t, ada,
		chromedp.Navigate(url+"/console/tokens/new"), chromedp.WaitVisible("#f-name"),
		chromedp.SendKeys("#f-name", "edge-2"), chromedp.Click("main form .button.primary"), chromedp.WaitVisible("#secret"),
	)
	secret := value[string](t, ada, `document.getElementById("secret").textContent`)
	if !strings.HasPrefix(secret, "slk_") || len(secret) < 40 {
		t.Fatalf("the secret is %q", secret)
	}
	steps(t, ada, chromedp.Click(`//a[text()="Back to tokens"]`),
		chromedp.WaitVisible(`button[aria-label="Revoke the token edge-2"]`))
	if value[bool](t, ada, `document.documentElement.outerHTML.includes("`+secret+`")`) {
		t.Error("the secret is shown again")
	}
	w.Clock.Add(11 * time.Minute)
	steps(t, ada, chromedp.Click(`button[aria-label="Revoke the token edge-2"]`),
		chromedp.WaitVisible(".dialog:popover-open form button.danger"),
		chromedp.Click(".dialog:popover-open form button.danger"),
		chromedp.WaitVisible("#f-confirm_password"))
	ada.Forgive() // the browser notes the 422
	steps(t, ada,
		chromedp.SendKeys("#f-confirm_password", webtest.Password+kb.Enter), chromedp.WaitVisible("[data-flash]"),
		chromedp.WaitNotPresent(`button[aria-label="Revoke the token edge-2"]`),
	)
	if !value[bool](t, ada, `document.querySelector("details").textContent.includes("edge-2")`) {
		t.Error("the token is not among those revoked")
	}
}

func TestJourney_AFileIsPlannedAndImported(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	steps(t, tab,
		chromedp.Navigate(url+"/console/import"), chromedp.WaitVisible("#f-text"),
		chromedp.SetValue("#f-text", webtest.SampleFile), chromedp.Click("#f-prune"),
		chromedp.Click("main form .button.primary"),
		chromedp.WaitVisible(`form[action="/console/import/apply"]`),
	)
	plan := shownText(t, tab, "main")
	for _, want := range []string{"To create", "refunds-per-user", "To change", "120", "To delete", "legacy-api"} {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan lacks %q:\n%s", want, plan)
		}
	}
	if len(w.Book.Applied) != 0 {
		t.Fatal("looking at the plan carried it out")
	}
	steps(t, tab, chromedp.Click(`.actions > [popovertarget="plan-delete"][class]:not([popovertargetaction])`),
		chromedp.WaitVisible("#plan-delete"),
		chromedp.Click(`#plan-delete .button.danger`), chromedp.WaitVisible("[data-flash]"))
	if got := shownText(t, tab, "main"); !strings.Contains(got, "1 created, 1 changed, 11 deleted") ||
		!strings.Contains(got, "refunds-per-user") {
		t.Errorf("after the import:\n%s", got)
	}
}

func TestJourney_TheAuditLogIsFilteredAndTakenAlong(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleAdmin)
	steps(t, tab,
		chromedp.Navigate(url+"/console/audit"), chromedp.WaitVisible("[data-search]"),
		chromedp.SendKeys("[data-search]", "charges"+kb.Enter), chromedp.WaitVisible(".filters a"),
	)
	if got := value[string](t, tab, `new URLSearchParams(location.search).get("subject")`); got != "charges" {
		t.Errorf("the address says %q", got)
	}
	if value[bool](t, tab, `[...document.querySelectorAll("tbody tr > td:nth-child(4)")].some(e => !e.textContent.includes("charges-per-user"))`) {
		t.Error("something else came through the filter")
	}
	steps(t, tab, chromedp.Click(".details summary"), chromedp.WaitVisible(".details .diff"))
	if got := shownText(t, tab, ".details .diff"); !strings.Contains(got, "100") || !strings.Contains(got, "120") {
		t.Errorf("the change:\n%s", got)
	}
	const take = `fetch(document.querySelector("a[download][href*='format=csv']").href).then(r => r.text().then(text => r.headers.get("Content-Disposition") + "\n" + text))`
	file, err := chromedp.Run(tab.Ctx, chromedp.Evaluate[string](take, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(file, "attachment") || strings.Count(file, "charges-per-user") < 20 ||
		strings.Contains(file, "old-gateway") {
		t.Errorf("the file:\n%.600s", file)
	}
}
