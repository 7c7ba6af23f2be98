package web_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/internal/sso"
	"sluice/internal/sso/ssotest"
	"sluice/web"
	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// window waits for the window that a page opened, until it is at an address.
func window(t *testing.T, tab *browsertest.Tab, at string) *browsertest.Tab {
	t.Helper()
	for tab.Ctx.Err() == nil {
		list, err := chromedp.Targets(tab.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range list {
			if info.Type == "page" && strings.HasPrefix(info.URL, at) {
				ctx, cancel := chromedp.NewContext(tab.Ctx, chromedp.WithTargetID(info.TargetID))
				t.Cleanup(cancel)
				return &browsertest.Tab{Ctx: ctx}
			}
		}
	}
	t.Fatalf("no window at %s", at)
	return nil
}

// The whole way, with a real client of a real provider: in by the button, and an
// act that cannot be undone, confirmed in a second window.
func TestJourney_SingleSignOn(t *testing.T) {
	w := world(t, webtest.Full)
	w.Clock.Add(time.Until(webtest.Now)) // the provider, cookies and tokens go by the real one
	provider := ssotest.New()
	t.Cleanup(provider.Close)
	provider.Person("s-grace", "Grace.Hopper", "ops-admins")
	site := serve(t, w)
	d := w.Deps(nil)
	d.SSO = &web.SSO{Name: "Example ID", Issuer: provider.URL, Claim: "groups", Accounts: w.Users,
		Provider: sso.New(sso.Options{
			Issuer: provider.URL, ClientID: ssotest.ClientID, ClientSecret: ssotest.ClientSecret,
			RedirectURL: site + web.SignOnPath, Claim: "groups",
			Groups: map[access.Role][]string{access.RoleAdmin: {"ops-admins"}}, Now: w.Clock.Now,
		})}
	if err := w.Serve(d); err != nil {
		t.Fatal(err)
	}
	tab := tab(t)
	steps(t, tab,
		chromedp.Navigate(site+"/console/rules/1"), chromedp.WaitVisible("#f-name"),
		chromedp.Click(`form[action="/console/sso/start"] button`), chromedp.WaitVisible("#approve"),
	)
	if got := value[string](t, tab, heading); got != "The provider" {
		t.Fatalf("the button led to %s", got)
	}
	steps(t, tab, chromedp.Click("#approve"), chromedp.WaitVisible("#history"))
	if got := value[string](t, tab, `document.querySelector(".who").textContent`); !strings.Contains(got,
		"grace.hopper") || !strings.Contains(got, "admin") {
		t.Errorf("signed in as %s", got)
	}

	steps(t, tab, chromedp.Navigate(site+"/console/people/2"),
		chromedp.Click(`form[action="/console/people/2/state"] button`), chromedp.WaitVisible(".steps"))
	tab.Forgive() // the browser notes the 422
	steps(t, tab, chromedp.Click(`form[action="/console/sso/start"] button`))
	second := window(t, tab, provider.URL)
	steps(t, second, chromedp.WaitVisible("#approve"), chromedp.Click("#approve"), chromedp.WaitVisible(".notice.good"))
	if got := value[string](t, second, heading); got != "Confirmed" {
		t.Errorf("the second window ends with %s", got)
	}
	steps(t, tab, chromedp.Click(`.steps form[action="/console/people/2/state"] button`),
		chromedp.WaitVisible("[data-flash]"))
	if u, err := w.Users.GetUser(t.Context(), 2); err != nil || !u.Disabled {
		t.Errorf("edda is not kept out (%v); the page says %s", err,
			value[string](t, tab, `document.querySelector("[data-flash]").textContent`))
	}
}
