package browsertest

import (
	_ "embed" // the accessibility checker
	"encoding/json"
	"fmt"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// axe is axe-core by Deque, under MPL 2.0 (see testdata/LICENSE).
//
//go:embed testdata/axe.min.js
var axe string

// SetCookies gives the tab the cookies of a site, such as the cookies of a webtest.Browser.
func (t *Tab) SetCookies(site string, cookies map[string]string) error {
	for name, value := range cookies {
		p := network.SetCookieParams{Name: name, Value: value, URL: site}
		if _, err := chromedp.Call(t.Ctx, network.SetCookie, p); err != nil {
			return err
		}
	}
	return nil
}

// Cookies returns the cookies that the tab would send to the page on show.
func (t *Tab) Cookies() (map[string]string, error) {
	got, err := chromedp.Call(t.Ctx, network.GetCookies, network.GetCookiesParams{})
	if err != nil {
		return nil, err
	}
	cookies := map[string]string{}
	for _, c := range got.Cookies {
		cookies[c.Name] = c.Value
	}
	return cookies, nil
}

// Show sets the size of the window in CSS pixels and whether the system is dark.
func (t *Tab) Show(width, height int64, dark bool) error {
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}
	if _, err := chromedp.Call(t.Ctx, emulation.SetEmulatedMedia, media); err != nil {
		return err
	}
	var options []chromedp.EmulateViewportOption
	if width < 600 {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulatePortrait, chromedp.EmulateTouch)
	}
	return chromedp.Do(t.Ctx, chromedp.EmulateViewport(width, height, options...))
}

// Wide reports by how many pixels the page is wider than the window, which it
// should never be.
func (t *Tab) Wide() (int, error) {
	return chromedp.Run(t.Ctx, chromedp.Evaluate[int](
		`document.documentElement.scrollWidth - document.documentElement.clientWidth`))
}

// Picture is the whole page as PNG.
func (t *Tab) Picture() ([]byte, error) {
	return chromedp.Run(t.Ctx, chromedp.FullScreenshot(100))
}

// Checker makes the accessibility checker ready in every page from now on. It is
// long, and sent once this way instead of for each page.
func (t *Tab) Checker() error {
	_, err := chromedp.Call(t.Ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: axe})
	return err
}

// Violations runs axe-core on the present page, in a tab with a Checker, and lists serious and critical violations of
// WCAG 2.2 A and AA and of axe's best practices. With rules, such as "color-contrast", it runs only these rules, which
// takes less time.
func (t *Tab) Violations(rules ...string) ([]string, error) {
	only, err := json.Marshal(rules)
	if err != nil {
		return nil, err
	}
	// A rule that finds only minor or moderate violations need not run.
	const check = `(only => axe.run(document, {resultTypes: ["violations"], ...(only ? {runOnly: only} : {
		rules: Object.fromEntries(axe._audit.rules
			.filter(r => r.impact === "minor" || r.impact === "moderate").map(r => [r.id, {enabled: false}])),
	})}).then(r => r.violations
		.filter(v => v.impact === "serious" || v.impact === "critical")
		.map(v => v.id + ": " + v.help + " at " + v.nodes.map(n => n.target.join(" ") + " (" + (n.any[0]?.message ?? "") + ")").join("; "))))(%s)`
	return chromedp.Run(t.Ctx, chromedp.Evaluate[[]string](fmt.Sprintf(check, only), chromedp.EvalAwaitPromise))
}
