package app

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/web/browsertest"
)

// The program itself, as people meet it in a browser and callers over HTTP at the
// same time. One browser serves all.
func TestBrowser(t *testing.T) {
	t.Parallel()
	b, err := browsertest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	t.Run("from the first start to a raised limit, on one node", func(t *testing.T) {
		n := start(t, withConsole(t))
		denialSeenAndHealed(t, b, n, n)
	})
	t.Run("the same with Postgres, Redis and two nodes", func(t *testing.T) {
		cfg := sharedSettings(t)
		cfg.Console = withConsole(t).Console
		denialSeenAndHealed(t, b, start(t, cfg), start(t, cfg))
	})
}

// window is a tab that fails the test on what its pages complain about.
type window struct {
	*browsertest.Tab
	t *testing.T
}

func openWindow(t *testing.T, b *browsertest.Browser) *window {
	t.Helper()
	tab, err := b.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range tab.Complaints() {
			t.Errorf("the page complains: %s", c)
		}
		tab.Close()
	})
	if err := tab.Show(1280, 800, false); err != nil {
		t.Fatal(err)
	}
	return &window{tab, t}
}

func (w *window) do(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	for i, s := range steps {
		if err := chromedp.Do(w.Ctx, s); err != nil {
			where, _ := chromedp.Run(w.Ctx, chromedp.Location())
			w.t.Fatalf("step %d at %s: %v", i+1, where, err)
		}
	}
}

// is evaluates an expression in the page.
func (w *window) is(expression string) bool {
	w.t.Helper()
	ok, err := chromedp.Run(w.Ctx, chromedp.Evaluate[bool](expression))
	if err != nil {
		w.t.Fatalf("%s: %v", expression, err)
	}
	return ok
}

// text is what an element shows.
func (w *window) text(selector string) string {
	w.t.Helper()
	text, err := chromedp.Run(w.Ctx, chromedp.Evaluate[string]("document.querySelector("+strconv.Quote(selector)+
		").innerText"))
	if err != nil {
		w.t.Fatalf("%s: %v", selector, err)
	}
	return text
}

// until waits until an expression is true in the page.
func (w *window) until(expression string) {
	w.t.Helper()
	wait := `new Promise(done => { const tick = setInterval(() => { if (` + expression +
		`) { clearInterval(tick); done(true); } }, 20); })`
	if _, err := chromedp.Run(w.Ctx, chromedp.Evaluate[bool](wait, chromedp.EvalAwaitPromise)); err != nil {
		w.t.Fatalf("%s: %v\n%s", expression, err, w.text("main"))
	}
}

// denialSeenAndHealed is the console's purpose: people at one node see what
// another denies, find out why, and change that.
func denialSeenAndHealed(t *testing.T, b *browsertest.Browser, at, gateway *node) {
	t.Helper()
	link := welcomeLink.FindString(at.out.String())
	w := openWindow(t, b)
	w.do(
		chromedp.Navigate(link), chromedp.WaitVisible("#f-name"),
		chromedp.SendKeys("#f-name", "grace"), chromedp.SendKeys("#f-password", "long enough for this"),
		chromedp.SendKeys("#f-repeat", "long enough for this"+kb.Enter),
		chromedp.WaitVisible("#live-tiles"),
		chromedp.Click(`.side a[href="/console/rules"]`), chromedp.WaitVisible(".empty"),
		chromedp.Click(`.empty a[href="/console/rules/new"]`), chromedp.WaitVisible("#f-limit"),
		chromedp.SendKeys("#f-name", "searches-per-user"), chromedp.SendKeys("#f-method", "GET"),
		chromedp.SendKeys("#f-route", "/v1/search"), chromedp.SendKeys("#f-scope", "user"),
		chromedp.SendKeys("#f-limit", "2"), chromedp.SetValue("#f-window_ms", "1"),
		chromedp.SetValue(`[name="window_ms.unit"]`, "day"),
		chromedp.Click(`button[value="save"]`), chromedp.WaitVisible("[data-flash]"),
		chromedp.Click(`.side a[href="/console"]`), chromedp.WaitVisible("#live-latest"),
	)
	w.until(`document.querySelector("[data-live]").dataset.state === "live"`)
	list := openWindow(t, b)
	list.sameSession(w, at.url)
	list.do(chromedp.Navigate(at.url+"/console/denials"), chromedp.WaitVisible("#live-samples .empty"))
	for _, w := range []*window{w, list} {
		w.is(`(window.loadedOnce = true)`)
	}

	const request = `{"method":"GET","route":"/v1/search","user":"ops-42"}`
	eventually(t, "the rule is in force where requests come in", func() bool {
		limits, _ := gateway.check(`{"method":"GET","route":"/v1/search","user":"probe","weight":0}`)["limits"].([]any)
		return len(limits) == 1
	})
	for i, want := range []bool{true, true, false} {
		if got := gateway.allowed(request); got != want {
			t.Fatalf("request %d: allowed %v", i+1, got)
		}
	}
	for _, w := range []*window{w, list} {
		w.until(`[...document.querySelectorAll("#live-latest tbody tr, #live-samples tbody tr")].some(e => e.innerText.includes("user:ops-42"))`)
		if !w.is(`window.loadedOnce === true`) {
			t.Error("the page was loaded again")
		}
	}

	w.do(chromedp.Click("#live-latest .go a"), chromedp.WaitVisible(".verdict"))
	if got := w.text(".verdict"); !strings.Contains(got, "denied, 429") || !strings.Contains(got, "by searches-per-user") {
		t.Fatalf("the explanation: %s", got)
	}
	w.do(
		chromedp.Click(`//tbody//th/a[text()="searches-per-user"]`), chromedp.WaitVisible("#history"),
		chromedp.Click(`main a[href$="/edit"]`), chromedp.WaitVisible("#f-limit"), chromedp.SetValue("#f-limit", "3"),
		chromedp.Click(`button[value="save"]`), chromedp.WaitVisible("[data-flash]"),
	)
	if got := w.text("#history"); !strings.Contains(got, "edited by grace") {
		t.Errorf("the history: %s", got)
	}
	eventually(t, "the raised limit lets one more pass", func() bool { return gateway.allowed(request) })
	if gateway.allowed(request) {
		t.Error("a fourth request passed under a limit of 3")
	}
	// Sessions and figures are those of all nodes.
	other := openWindow(t, b)
	other.sameSession(w, gateway.url)
	other.do(chromedp.Navigate(gateway.url+"/console/rules"), chromedp.WaitVisible("tbody"))
	by := `document.querySelector('tbody [title^="by grace"]') !== null` // also as text where there is room
	if got := other.text("tbody"); !strings.Contains(got, "3/day per user") || !other.is(by) {
		t.Errorf("the rules on the other node: %s", got)
	}
}

// sameSession signs in where another window has.
func (w *window) sameSession(as *window, site string) {
	w.t.Helper()
	cookies, err := as.Cookies()
	if err == nil {
		err = w.SetCookies(site, cookies)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// admitted makes the first account of a node, and is its browser over HTTP.
func admitted(t *testing.T, n *node) (*person, map[string]string) {
	t.Helper()
	p := newPerson(t, n)
	link := welcomeLink.FindStringSubmatch(n.out.String())
	p.post(n.url+"/console/welcome", url.Values{"token": {link[1]}, "name": {"grace"},
		"password": {"long enough for this"}, "repeat": {"long enough for this"}})
	at, err := url.Parse(n.url)
	if err != nil {
		t.Fatal(err)
	}
	cookies := map[string]string{}
	for _, c := range p.client.Jar.Cookies(at) {
		cookies[c.Name] = c.Value
	}
	return p, cookies
}
