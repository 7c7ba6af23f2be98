package web_test

import (
	neturl "net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/browsertest"
	"sluice/web/kit"
	"sluice/web/webtest"
)

// selectRules selects rules of the list, and presses a button of the bar.
func selectRules(t *testing.T, tab *browsertest.Tab, url, act string, names ...string) {
	t.Helper()
	steps(t, tab, chromedp.Navigate(url+"/console/rules"), chromedp.WaitVisible("main table"))
	for _, name := range names {
		steps(t, tab, chromedp.Click(`input[aria-label="Select `+name+`"]`))
	}
	steps(t, tab, chromedp.Click(`button[value="`+act+`"]`), chromedp.WaitVisible("[data-flash]"))
}

func TestJourney_ABulkEditIsUndoneExceptForWhatSomeoneChanged(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	selectRules(t, tab, url, "shadow", "charges-per-user", "search-per-user", "logins-per-address")
	edited := w.Rules.Named("search-per-user").Clone()
	edited.Limit = 61
	if _, err := w.Rules.UpdateRule(t.Context(), rules.Actor{Kind: "user", Name: "ada"}, edited,
		edited.Version); err != nil {
		t.Fatal(err)
	}
	steps(t, tab,
		chromedp.Navigate(url+"/console/audit"), chromedp.Click(`a[href$="/undo"]`),
		chromedp.WaitVisible("main form.actions .primary"),
	)
	if got := shownText(t, tab, "main"); !strings.Contains(got, "Undo the edit of 2 rules?") ||
		!strings.Contains(got, "Skipped: search-per-user (changed in the meantime)") {
		t.Errorf("it asks\n%s", got)
	}
	steps(t, tab, chromedp.Click("main form.actions .primary"), chromedp.WaitVisible("[data-flash]"))
	if got := shownText(t, tab, "[data-flash]"); !strings.Contains(got, "2 rules are as they were before.") ||
		!strings.Contains(got, "search-per-user") {
		t.Errorf("it says %q", got)
	}
	for name, want := range map[string]string{"charges-per-user": rules.ModeEnforce, "search-per-user": rules.ModeShadow,
		"logins-per-address": rules.ModeEnforce} {
		if r := w.Rules.Named(name); r.Mode != want {
			t.Errorf("%s is in mode %s, want %s", name, r.Mode, want)
		}
	}
	if r := w.Rules.Named("search-per-user"); r.Limit != 61 {
		t.Errorf("the edit of ada is lost: %d", r.Limit)
	}
}

func TestJourney_UndoIsInTheMessageAndGoes(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	selectRules(t, tab, url, "off", "charges-per-user", "search-per-user")
	steps(t, tab, chromedp.Click("[data-flash] form .button"),
		chromedp.WaitNotPresent("[data-flash] form"), chromedp.WaitVisible("[data-flash]"))
	if got := shownText(t, tab, "[data-flash]"); !strings.Contains(got, "2 rules are as they were before.") {
		t.Errorf("it says %q", got)
	}
	if !w.Rules.Named("charges-per-user").IsActive || !w.Rules.Named("search-per-user").IsActive {
		t.Error("the rules are still disabled")
	}
	b := w.As(access.RoleEditor)
	if err := tab.SetCookies(url, b.Cookies()); err != nil {
		t.Fatal(err)
	}
	b.Post("/console/rules/bulk", neturl.Values{"act": {"off"}, "rule": {"1"}})
	w.Clock.Add(kit.UndoFor - 200*time.Millisecond) // the page comes late
	steps(t, tab, chromedp.Navigate(url+"/console/rules"), chromedp.WaitVisible("[data-flash]"),
		chromedp.WaitNotPresent("[data-flash] form"))
	if got := shownText(t, tab, "[data-flash]"); !strings.Contains(got, "1 rule is now disabled.") {
		t.Errorf("without the offer, it says %q", got)
	}
}
