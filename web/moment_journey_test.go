package web_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/web/webtest"
)

func TestJourney_MomentsAreTypedInTheViewersZoneOrAnother(t *testing.T) {
	w := world(t, webtest.Full)
	url, tab := serve(t, w), tab(t)
	if err := tab.SetCookies(url, w.As(access.RoleEditor).Cookies()); err != nil {
		t.Fatal(err)
	}
	if err := tab.Zone("Asia/Tokyo"); err != nil {
		t.Fatal(err)
	}
	said := func() string {
		return value[string](t, tab, `document.querySelector("[data-moment='f-expires_at']").textContent`)
	}
	typed := func(id, text string) {
		t.Helper()
		value[bool](t, tab, `(() => { const f = document.getElementById("`+id+`"); f.value = "`+text+
			`"; return f.dispatchEvent(new Event("input", {bubbles: true})); })()`)
	}
	steps(t, tab, chromedp.Navigate(url+"/console/rules/1/overrides/new"), chromedp.WaitVisible("#f-key"))
	if zone := value[string](t, tab, `document.getElementById("f-expires_at.zone").value`); zone != "Asia/Tokyo" {
		t.Errorf("the zone is %q at first, want the viewer's", zone)
	}
	typed("f-expires_at", "2027-07-31T18:00")
	if said() != "" {
		t.Errorf("the viewer's own zone needs no translation: %q", said())
	}
	typed("f-expires_at.zone", "America/New_York")
	if want := value[string](t, tab, `new Intl.DateTimeFormat(undefined, {dateStyle: "medium", timeStyle: "short"}).format(new Date("2027-07-31T22:00:00Z")) + " in your time zone."`); said() != want {
		t.Errorf("it says %q, want %q", said(), want)
	}
	steps(t, tab, chromedp.SetValue("#f-key", "user:77"), chromedp.SetValue("#f-kind", "blocked"),
		chromedp.Click("form.stack button.primary"), chromedp.WaitVisible("[data-flash]"))
	if at := w.Overrides.List[3].ExpiresAt; at == nil || at.UTC().Format(time.RFC3339) != "2027-07-31T22:00:00Z" {
		t.Errorf("it ends at %v", at)
	}
	steps(t, tab, chromedp.Navigate(url+"/console/rules/1/overrides/4/edit"), chromedp.WaitVisible("#f-reason"))
	if zone := value[string](t, tab, `document.getElementById("f-expires_at.zone").value`); zone != "UTC" || said() == "" {
		t.Errorf("what is stored is shown in %q, and said to be %q", zone, said())
	}
	steps(t, tab, chromedp.Navigate(url+"/console/audit"), chromedp.WaitVisible("#f-from"))
	if zone := value[string](t, tab, `document.querySelector("[name=zone]").value`); zone != "Asia/Tokyo" {
		t.Errorf("the audit log has days of %q, want the viewer's", zone)
	}
}
