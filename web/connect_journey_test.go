package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/web/webtest"
)

// From the checklist to a gateway that asks: ada connects Caddy, waits for its first request, and sees it come in. A
// gateway that she connects by mistake is removed again.
func TestJourney_AGatewayIsConnectedAndAsks(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Empty)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleAdmin)
	const connect, update = `form.card .primary`, `form.card .button:not(.primary)`
	steps(t, tab,
		chromedp.Navigate(url+"/console"), chromedp.Click(`.checklist a[href="/console/connect"]`),
		chromedp.WaitVisible("#f-name"), chromedp.Click(`.subnav a[href$="gateway=caddy"]`),
		chromedp.WaitVisible("#text-Caddyfile"), chromedp.SetValue("#f-app", "127.0.0.1:9123"), chromedp.Click(update))
	until(t, tab, `document.querySelector("#text-Caddyfile")?.textContent.includes("127.0.0.1:9123")`)
	if len(w.Profiles.List)+len(w.Tokens.List) > 0 {
		t.Error("something is stored before Connect")
	}
	steps(t, tab, chromedp.Click(connect), chromedp.WaitVisible(`.page-head a[href="/console/profiles/caddy"]`))
	commands := value[string](t, tab, `document.querySelector("#text-start").textContent`)
	line, _, _ := strings.Cut(commands, "\n")
	if secret, ok := strings.CutPrefix(line, "export SLUICE_TOKEN="); !ok || access.Hash(secret) != w.Tokens.List[0].Hash {
		t.Errorf("the commands begin with %q", line)
	}
	steps(t, tab, chromedp.Click(`.page-head .primary`), chromedp.WaitVisible("#live-gateway .danger"))
	until(t, tab, live)
	w.Gateways.Ask("caddy", webtest.Now)
	until(t, tab, `document.querySelector("#live-gateway").textContent.includes("Caddy asks")`)
	if value[bool](t, tab, `document.querySelector("#live-gateway .danger") !== null`) {
		t.Error("a gateway that asks can be removed")
	}

	steps(t, tab, chromedp.Navigate(url+"/console/connect"), chromedp.WaitVisible("#f-name"), chromedp.Click(connect),
		chromedp.WaitVisible(`.page-head .primary`), chromedp.Navigate(url+"/console/profiles/nginx"),
		chromedp.WaitVisible("#live-gateway .danger"), chromedp.Click("#live-gateway .danger"),
		chromedp.WaitVisible("[data-flash]"))
	if len(w.Profiles.List) != 1 || w.Tokens.List[1].RevokedAt == nil || w.Tokens.List[0].RevokedAt != nil {
		t.Errorf("after removing both: %v, %v", w.Profiles.List, w.Tokens.List)
	}
}
