package web_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/web/webtest"
)

func TestJourney_WhatWasTypedOutlivesTheSession(t *testing.T) {
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	steps(t, tab,
		chromedp.Navigate(url+"/console/rules/new?template=payments-per-user"), chromedp.WaitVisible("#f-name"),
		chromedp.SetValue("#f-name", "typed-all-day"), chromedp.SetValue("#f-description", "two \"quoted\" & <words>"),
	)
	const away = 10 * 24 * time.Hour
	w.Clock.Add(away)
	steps(t, tab, chromedp.SendKeys("#f-limit", "0"))
	if _, err := chromedp.Run(tab.Ctx, chromedp.Poll[bool](
		`document.getElementById("preview").textContent.includes("You are signed out")`)); err != nil {
		t.Fatalf("the preview does not say that the session has ended: %v", err)
	}
	if name := value[string](t, tab, `document.getElementById("f-name").value`); name != "typed-all-day" {
		t.Fatalf("the preview took the form away: %q", name)
	}
	steps(t, tab, chromedp.Click(`button[value="save"]`), chromedp.WaitVisible(".error-page form"))
	if status, err := tab.Status(); err != nil || status != http.StatusUnauthorized {
		t.Errorf("the page is %d, %v", status, err)
	}
	tab.Forgive() // the browser notes the 401
	// so that the new session, which ends by the machine's clock, has not ended yet
	w.Clock.Add(-away)
	if err := tab.SetCookies(url, w.As(access.RoleEditor).Cookies()); err != nil { // as signing in in another tab does
		t.Fatal(err)
	}
	steps(t, tab, chromedp.Click(".error-page button"), chromedp.WaitVisible("[data-flash]"))
	if r := w.Rules.Named("typed-all-day"); r == nil || r.Description != `two "quoted" & <words>` {
		t.Errorf("stored is %+v", r)
	}
}
