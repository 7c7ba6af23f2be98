package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// until waits until an expression is true in the page.
func until(t *testing.T, tab *browsertest.Tab, expression string) {
	t.Helper()
	wait := `new Promise(done => { const tick = setInterval(() => { if (` + expression +
		`) { clearInterval(tick); done(true); } }, 20); })`
	for {
		_, err := chromedp.Run(tab.Ctx, chromedp.Evaluate[bool](wait, chromedp.EvalAwaitPromise))
		if err == nil {
			return
		}
		if tab.Ctx.Err() != nil || !strings.Contains(err.Error(), "navigated or closed") { // else the next page is asked
			t.Fatalf("%s: %v", expression, err)
		}
	}
}

func TestJourney_ADenialRaisesTheCounters(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url, tab := serve(t, w), tab(t)
	if err := tab.SetCookies(url, w.As(access.RoleViewer).Cookies()); err != nil {
		t.Fatal(err)
	}
	steps(t, tab,
		chromedp.Navigate(url+"/console"), chromedp.WaitVisible("#live-denied a"),
		chromedp.Focus("#live-denied a"),
	)
	until(t, tab, `document.querySelector("[data-live]").dataset.state === "live"`)
	w.Fleet.Change(func(l *history.Live) { l.Rules[0].Minute.Denied = 4321 })
	until(t, tab, `document.querySelector("#live-denied .number").textContent.includes("4,321")`)
	if !value[bool](t, tab, `document.activeElement === document.querySelector("#live-denied a")`) {
		t.Error("the focus was lost when the figures moved")
	}
	steps(t, tab, chromedp.Click("[data-live-pause]"))
	until(t, tab, `document.querySelector("[data-live]").dataset.state === "paused"`)
	w.Fleet.Change(func(l *history.Live) { l.Rules[0].Minute.Denied = 9999 })
	steps(t, tab, chromedp.Navigate(url+"/console/rules/1"), chromedp.WaitVisible("#minute-denied"))
	w.Fleet.Change(func(l *history.Live) { l.Rules[0].Minute.Denied = 12345 })
	until(t, tab, `document.querySelector("#minute-denied .figure").textContent.includes("12,345")`)
}

func TestJourney_RollsBackAndPromotes(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url, tab := serve(t, w), tab(t)
	if err := tab.SetCookies(url, w.As(access.RoleEditor).Cookies()); err != nil {
		t.Fatal(err)
	}
	steps(t, tab,
		chromedp.Navigate(url+"/console/rules/7"), chromedp.WaitVisible("#history"),
		chromedp.Click(`a[href="/console/rules/7/rollback?to=1"]`), chromedp.WaitVisible(".diff"),
		chromedp.Click("main form .button.primary"), chromedp.WaitVisible("[data-flash]"),
	)
	if r, err := w.Rules.GetRule(t.Context(), 7); err != nil || r.Limit != 90 || r.Version != 4 {
		t.Fatalf("rolled back to limit %d, version %d (%v)", r.Limit, r.Version, err)
	}
	// The limit of the rolled-back version has seen no request yet, so the promotion is confirmed twice.
	steps(t, tab, chromedp.Click(`a[href$="/turn?to=promote"]`), chromedp.WaitVisible(`form[action$="/promote"]`),
		chromedp.SendKeys("#f-reason", "the sale"), chromedp.Click(`form[action$="/promote"] .button.primary`),
		chromedp.WaitVisible("p.error#f-little_evidence-hint"))
	until(t, tab, `[...document.querySelectorAll(".notice.warn")].some(p =>
		p.textContent.includes("Too little evidence: no request has been seen yet."))`)
	if r, err := w.Rules.GetRule(t.Context(), 7); err != nil || r.Mode != rules.ModeShadow {
		t.Errorf("promoted without confirmation: mode %s (%v)", r.Mode, err)
	}
	tab.Forgive() // the browser notes the 422
	steps(t, tab, chromedp.Click("#f-little_evidence"), chromedp.Click(`form[action$="/promote"] .button.primary`),
		chromedp.WaitNotPresent(`a[href$="/turn?to=promote"]`), chromedp.WaitVisible("[data-flash]"))
	if page := w.As(access.RoleViewer).Get("/console/rules/7"); !page.Has("“the sale”") {
		t.Error("the reason is lost")
	}
	if r, err := w.Rules.GetRule(t.Context(), 7); err != nil || r.Mode != rules.ModeEnforce {
		t.Errorf("promoted to mode %s (%v)", r.Mode, err)
	}
}
