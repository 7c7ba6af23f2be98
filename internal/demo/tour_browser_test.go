package demo_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/web/browsertest"
)

// newTab opens a tab that has the session of the person.
func (p *playing) newTab(browser *browsertest.Browser) *browsertest.Tab {
	p.t.Helper()
	tab, err := browser.Open()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(tab.Close)
	site, err := url.Parse(p.url)
	if err != nil {
		p.t.Fatal(err)
	}
	site.Path = "/console"
	cookies := map[string]string{}
	for _, c := range p.client.Jar.Cookies(site) {
		cookies[c.Name] = c.Value
	}
	if err := tab.SetCookies(p.url, cookies); err != nil {
		p.t.Fatal(err)
	}
	return tab
}

// stop is what the bar of the tour says, "" without a bar.
func stop(t *testing.T, tab *browsertest.Tab) string {
	t.Helper()
	text, err := chromedp.Run(tab.Ctx, chromedp.Evaluate[string](
		`[...document.querySelectorAll(".tour .sub, .tour strong")].map(e => e.textContent).join(": ")`))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The tour has six stops. It works with and without scripts, on a wide window and on a phone, and stays closed.
func TestTour_LeadsThroughSixPagesAndCanBeClosed(t *testing.T) {
	p := play(t, "127.0.0.1:0")
	p.signIn()
	browser, err := browsertest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(browser.Close)
	stops := []struct{ title, heading string }{
		{"Who is denied?", "Overview"}, {"The key that floods", "ip:" + flooder},
		{"The rule that stops it", "logins-per-address"}, {"A limit on trial", "charges-per-user"},
		{"Why was this denied?", "Denials"}, {"What happened before", "Incidents"},
	}
	for _, look := range []struct {
		name    string
		width   int64
		scripts bool
	}{{"with scripts", 1440, true}, {"on a phone without scripts", 320, false}} {
		t.Run(look.name, func(t *testing.T) {
			tab := p.newTab(browser)
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			if must(tab.Checker()); !look.scripts {
				must(tab.WithoutScripts())
			}
			must(tab.Show(look.width, 900, false))
			must(tab.Go(p.url + "/console"))
			for i, want := range stops {
				if got := stop(t, tab); got != fmt.Sprintf("Stop %d of 6: %s", i+1, want.title) {
					t.Fatalf("stop %d is %q", i+1, got)
				}
				main, err := chromedp.Run(tab.Ctx, chromedp.Evaluate[string](`document.querySelector("main").textContent`))
				if must(err); !strings.Contains(main, want.heading) {
					t.Errorf("stop %d is on a page without %q", i+1, want.heading)
				}
				wide, err := tab.Wide()
				if must(err); wide > 0 {
					t.Errorf("stop %d is %d pixels wider than the window", i+1, wide)
				}
				if look.scripts {
					bad, err := tab.Violations()
					if must(err); len(bad) > 0 {
						t.Errorf("stop %d: %s", i+1, strings.Join(bad, "\n"))
					}
				}
				if i+1 < len(stops) {
					must(tab.Leave(chromedp.Click(".tour a.primary")))
				}
			}
			must(tab.Leave(chromedp.Click(".tour form button")))
			if got := stop(t, tab); got != "" {
				t.Errorf("the tour is closed and says %q", got)
			}
			must(tab.Go(p.url + "/console"))
			if got := stop(t, tab); got != "" {
				t.Errorf("the tour was closed, and the overview says %q", got)
			}
			if bad := tab.Stray(); len(bad) > 0 {
				t.Errorf("complaints: %q", bad)
			}
		})
	}
}
