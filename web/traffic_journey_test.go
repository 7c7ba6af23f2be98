package web_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/access"
	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// tabTo presses Tab until the focus is on what a selector finds.
func tabTo(t *testing.T, tab *browsertest.Tab, selector string) {
	t.Helper()
	for range 120 {
		steps(t, tab, chromedp.KeyEvent(kb.Tab))
		if value[bool](t, tab, `document.activeElement.matches(`+"`"+selector+"`"+`)`) {
			return
		}
	}
	t.Fatalf("Tab does not lead to %s", selector)
}

// there waits for the page with a query.
func there(t *testing.T, tab *browsertest.Tab, query string) {
	t.Helper()
	until(t, tab, `document.readyState === "complete" && location.search.includes("`+query+`")`)
}

const rowNames = `[...document.querySelectorAll(".traffic .whole-row")].map((e) => e.textContent).join(" ")`

// TestJourney_TrafficByKeyboardAlone goes from the totals to the page of one key.
func TestJourney_TrafficByKeyboardAlone(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	steps(t, tab, chromedp.Navigate(url+"/console"), chromedp.WaitReady("#side"))
	tabTo(t, tab, `#side a[href="/console/traffic"]`)
	steps(t, tab, chromedp.KeyEvent(kb.Enter), chromedp.WaitReady(".traffic"))

	tabTo(t, tab, `.traffic a[href*="sort=name"]`)
	steps(t, tab, chromedp.KeyEvent(kb.Enter))
	there(t, tab, "sort=name")
	if got := value[string](t, tab, rowNames); !strings.HasPrefix(got, "charges-per-user daily-quota-per-tenant") ||
		value[string](t, tab, `document.querySelector("th[aria-sort]").ariaSort`) != "ascending" {
		t.Fatalf("sorted by name: %s", got)
	}
	tabTo(t, tab, "[name=q]")
	steps(t, tab, chromedp.KeyEvent("charges user"), chromedp.KeyEvent(kb.Enter))
	there(t, tab, "q=charges")
	if got := value[string](t, tab, rowNames); got != "charges-per-user" {
		t.Fatalf("filtered: %s", got)
	}
	tabTo(t, tab, ".whole-row")
	steps(t, tab, chromedp.KeyEvent(kb.Enter))
	there(t, tab, "rule=charges-per-user")
	if got := value[string](t, tab, rowNames); !strings.HasPrefix(got, "user:42 user:7") { // sorted by name as before
		t.Fatalf("the keys of the rule: %s", got)
	}
	tabTo(t, tab, `.pivots a[href*="by=tenant"]`)
	steps(t, tab, chromedp.KeyEvent(kb.Enter))
	there(t, tab, "by=tenant")
	if got := value[string](t, tab, rowNames); got != "acme globex initech" {
		t.Fatalf("its tenants: %s", got)
	}
	steps(t, tab, chromedp.Navigate(url+"/console/traffic?by=key&rule=charges-per-user"), chromedp.WaitReady(".traffic"))
	tabTo(t, tab, ".whole-row")
	steps(t, tab, chromedp.KeyEvent(kb.Enter))
	until(t, tab, `location.pathname === "/console/keys" && document.querySelector("h1") !== null`)
}

// TestJourney_AClickAnywhereInARowFiltersThePage, but for the links in it that lead elsewhere.
func TestJourney_AClickAnywhereInARowFiltersThePage(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	steps(t, tab, chromedp.Navigate(url+"/console/traffic?q=charges-per-user"), chromedp.WaitReady(".traffic"))
	steps(t, tab, chromedp.Click(`.traffic td[data-label="Peak/s"]`))
	there(t, tab, "rule=charges-per-user")
	const take = `fetch(document.querySelector("#by a[download]").href).then((r) => r.text())`
	text, err := chromedp.Run(tab.Ctx, chromedp.Evaluate[string](take, chromedp.EvalAwaitPromise))
	if err != nil || !strings.HasPrefix(text, "key,allowed,denied") || !strings.Contains(text, "user:acme-batch,45000") {
		t.Errorf("the file is %q (%v)", text, err)
	}
	steps(t, tab, chromedp.Navigate(url+"/console/traffic?q=charges-per-user"), chromedp.WaitReady(".traffic"),
		chromedp.Click(`.traffic td.go a`))
	until(t, tab, `location.pathname === "/console/rules/1"`)
}

func TestJourney_TrafficWithoutScripts(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	if err := tab.WithoutScripts(); err != nil {
		t.Fatal(err)
	}
	press := func(selector string) {
		t.Helper()
		if err := tab.Leave(browsertest.Script(`document.querySelector("` + selector + `").click()`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tab.Go(url + "/console/traffic"); err != nil {
		t.Fatal(err)
	}
	press(".pivots a[href*='by=tenant']")
	press(".traffic a[href*='sort=allowed']")
	steps(t, tab, chromedp.SendKeys("[name=q]", "acm"))
	press("form:has([name=q]) button")
	if got := value[string](t, tab, rowNames); got != "acme" ||
		value[string](t, tab, `location.search`) != "?by=tenant&desc=1&sort=allowed&q=acm" {
		t.Errorf("at %s: %s", value[string](t, tab, `location.search`), got)
	}
	press("[data-live-state] a")
	if got := value[string](t, tab, rowNames); got != "acme" {
		t.Errorf("after a reload: %s", got)
	}
}

// TestJourney_FromARangeToAMoment chooses a range, looks closer, and goes on to the requests of one point.
func TestJourney_FromARangeToAMoment(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	steps(t, tab, chromedp.Navigate(url+"/console/traffic?by=key&rule=charges-per-user&sort=name"),
		chromedp.WaitReady(".traffic"), chromedp.Click(`.range a[title="The last 24 hours"]`))
	there(t, tab, "range=24h")
	place := value[[]float64](t, tab, `(r => [r.left, r.top + r.height / 2, r.width])(document.querySelector("[data-plot]").getBoundingClientRect())`)
	mouse := func(kind input.DispatchMouseEventType, part float64) chromedp.Action[chromedp.Void] {
		return chromedp.MouseEvent(kind, place[0]+place[2]*part, place[1], chromedp.ButtonLeft)
	}
	steps(t, tab, mouse(input.DispatchMouseEventTypeMousePressed, .25), mouse(input.DispatchMouseEventTypeMouseMoved, .3),
		mouse(input.DispatchMouseEventTypeMouseMoved, .5), mouse(input.DispatchMouseEventTypeMouseReleased, .5))
	there(t, tab, "from=")
	const kept = `(q => [q.get("by"), q.get("rule"), q.get("sort"), q.get("range")].join(" "))(new URLSearchParams(location.search))`
	if got := value[string](t, tab, kept); got != "key charges-per-user name " {
		t.Errorf("the zoom keeps %q", got)
	}
	hours := value[float64](t, tab, `(q => (new Date(q.get("to")) - new Date(q.get("from"))) / 3600000)(new URLSearchParams(location.search))`)
	if hours < 5.5 || hours > 6.5 || value[bool](t, tab, `document.querySelector("[data-live]") !== null`) {
		t.Errorf("a quarter of the day has %v hours", hours)
	}
	steps(t, tab, chromedp.Click("figure details:last-of-type > summary"), chromedp.Focus("[data-rows] a"),
		chromedp.KeyEvent(kb.Enter))
	until(t, tab, `location.pathname === "/console/requests" && location.search.includes("rule=charges-per-user")`)
	steps(t, tab, chromedp.Navigate(url+"/console/traffic?by=node&from=2026-11-21T12:00&to=2026-11-21T11:00"),
		chromedp.WaitReady("[aria-invalid=true]"))
	tab.Forgive() // the browser notes the 422
	if got := shownText(t, tab, "main"); !strings.Contains(got, "ust be after the start") ||
		!strings.Contains(got, "10.0.0.2:8080") || value[string](t, tab, `document.getElementById("f-to").value`) == "" {
		t.Errorf("a reversed range: %s", got)
	}
}

// TestJourney_TrafficIsAccessible in both themes and at three widths. What a page is made of is the same whatever its
// colours, so in the dark only those are looked at, at one width.
func TestJourney_TrafficIsAccessible(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	if err := tab.Checker(); err != nil {
		t.Fatal(err)
	}
	looked := map[bool][]string{true: {"color-contrast", "link-in-text-block"}} // all rules in the light
	for _, path := range []string{"", "?by=key&rule=charges-per-user", "?by=planet"} {
		if err := tab.Go(url + "/console/traffic" + path); err != nil {
			t.Fatal(err)
		}
		for _, width := range []int64{390, 1280, 1920} {
			for _, dark := range []bool{false, true} {
				if err := tab.Show(width, 900, dark); err != nil {
					t.Fatal(err)
				}
				if wide, err := tab.Wide(); err != nil || wide > 0 {
					t.Errorf("%q, %d wide: %d pixels too wide (%v)", path, width, wide, err)
				}
				if dark && width != 1280 {
					continue
				}
				found, err := tab.Violations(looked[dark]...)
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range found {
					t.Errorf("%q, %d wide, dark %v: %s", path, width, dark, v)
				}
			}
		}
	}
	const small = `[...document.querySelectorAll("main a, main button, main input")].filter((e) => e.checkVisibility() &&
		!e.matches("p a, .hidden, [type=hidden], .whole-row, thead a, [data-live-state] a") &&
		e.getBoundingClientRect().height < 24)
		.map((e) => e.outerHTML.slice(0, 80)).join(", ")`
	if got := value[string](t, tab, small); got != "" {
		t.Errorf("targets below 24 pixels: %s", got)
	}
	tab.Forgive() // the browser notes the 422
}

// TestJourney_TrafficDoesNotMoveWhileItLoads, on a phone: a browser calls a layout shift below 0.1 good.
func TestJourney_TrafficDoesNotMoveWhileItLoads(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	steps(t, tab, chromedp.EmulateViewport(390, 844), chromedp.Navigate(url+"/console/traffic"),
		chromedp.WaitReady(".traffic"))
	until(t, tab, live)
	_ = value[bool](t, tab, `{
		window.shift = -1;
		new PerformanceObserver((all) => {
			window.shift = all.getEntries().reduce((sum, e) => sum + e.value, Math.max(0, window.shift));
		}).observe({ type: "layout-shift", buffered: true });
		requestAnimationFrame(() => requestAnimationFrame(() => { window.shift = Math.max(0, window.shift); }));
	} true`)
	until(t, tab, `window.shift >= 0`)
	if got := value[float64](t, tab, `window.shift`); got >= .1 {
		t.Errorf("layout shift %.2f", got)
	}
}

// TestJourney_TrafficChangesInPlace: the focus stays, and nothing moves.
func TestJourney_TrafficChangesInPlace(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	steps(t, tab, chromedp.Navigate(url+"/console/traffic?by=rule"), chromedp.WaitReady(".traffic"))
	until(t, tab, live)
	_ = value[bool](t, tab, `{
		window.shift = 0;
		new PerformanceObserver((all) => { for (const e of all.getEntries()) window.shift += e.value; })
			.observe({ type: "layout-shift" });
		window.before = document.getElementById("traffic-tiles").innerText;
	} true`)
	steps(t, tab, chromedp.Focus(`.pivots a[href*="by=node"]`))
	for range 3 {
		w.Clock.Add(7 * time.Minute)
		until(t, tab, `window.before !== document.getElementById("traffic-tiles").innerText`)
		_ = value[bool](t, tab, `(window.before = document.getElementById("traffic-tiles").innerText) !== ""`)
	}
	if !value[bool](t, tab, `document.activeElement.matches(".pivots a")`) {
		t.Error("the focus was lost")
	}
	if got := value[float64](t, tab, `window.shift`); got >= .1 {
		t.Errorf("layout shift %.2f", got)
	}
	steps(t, tab, chromedp.Click("[data-live-pause]"))
	until(t, tab, `document.querySelector("[data-live]").dataset.state === "paused"`)
}
