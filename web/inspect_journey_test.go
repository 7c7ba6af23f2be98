package web_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/web/browsertest"
	"sluice/web/webtest"
)

const live = `document.querySelector("[data-live]").dataset.state === "live"`

// shownText is the text of the first element that a selector finds.
func shownText(t *testing.T, tab *browsertest.Tab, selector string) string {
	t.Helper()
	return value[string](t, tab, `document.querySelector(`+"`"+selector+"`"+`).innerText`)
}

// spend uses up what a user has of charges-per-user.
func spend(t *testing.T, w *webtest.World, user string) {
	t.Helper()
	d := match.Descriptor{Method: "POST", Route: "/v1/charges", User: user, IP: netip.MustParseAddr("203.0.113.7")}
	if err := w.Spend(&d, 100); err != nil {
		t.Fatal(err)
	}
}

func TestJourney_FromADenialToItsExplanation(t *testing.T) {
	t.Parallel()
	for page, list := range map[string]string{"/console": "#live-latest", "/console/denials": "#live-samples"} {
		t.Run(list, func(t *testing.T) {
			t.Parallel()
			w := world(t, webtest.Full)
			spend(t, w, "40")
			url := serve(t, w)
			tab := signedIn(t, w, url, access.RoleViewer)
			steps(t, tab, chromedp.Navigate(url+page), chromedp.WaitVisible(list+" tr:not(.repeat) .go a"))
			until(t, tab, live)
			steps(t, tab, chromedp.Click(list+" tr:not(.repeat) .go a"), chromedp.WaitVisible(".verdict"))
			verdict := shownText(t, tab, ".verdict")
			for _, want := range []string{"denied, 429", "by charges-per-user", "The request was denied"} {
				if !strings.Contains(verdict, want) {
					t.Errorf("the verdict lacks %q: %s", want, verdict)
				}
			}
			if got := value[string](t, tab, `["method", "route", "user", "tier"].map(n => document.getElementById("f-" + n).value).join(" ")`); got != "POST /v1/charges 40 free" {
				t.Errorf("the form has %q", got)
			}
			steps(t, tab, chromedp.Click(`tbody td a[href^="/console/keys"]`), chromedp.WaitVisible("main .facts"))
			if got := shownText(t, tab, "main"); !strings.Contains(got, "0 of 100") {
				t.Errorf("the key's page says\n%s", got)
			}
		})
	}
}

func TestJourney_ADenialAppearsInTheListItIsOf(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	deny := func(id, rule string) {
		w.Fleet.Deny(history.Request{ID: id, Rule: rule, Key: "user:late", Bucket: "user:late", Mode: rules.ModeEnforce,
			Status: 429, Limit: 7, Weight: 1, At: webtest.Now.UnixMilli(), Route: "/late"})
	}
	steps(t, tab, chromedp.Navigate(url+"/console/denials?rule=charges-per-user"),
		chromedp.WaitVisible("[data-denial='0']"))
	until(t, tab, live)
	deny("n1", "search-per-user")
	deny("n2", "charges-per-user")
	until(t, tab, `document.querySelector("[data-denial='n2']") !== null`)
	if value[bool](t, tab, `document.querySelector("[data-denial='n1']") !== null`) {
		t.Error("a denial of another rule came through the filter")
	}
	steps(t, tab, chromedp.Navigate(url+"/console/denials?key=late"), chromedp.WaitVisible("[data-denial='n1']"))
	w.Fleet.SetErr(rules.ErrUnavailable)
	until(t, tab, `document.getElementById("live-notes").innerText.includes("last known")`)
	if !value[bool](t, tab, `document.querySelector("[data-denial='n1']") !== null`) {
		t.Error("what was known is gone")
	}
}

// TestJourney_AListStandsStillUnderThePointer: a row must not slip away from under
// a click, and what came in the meantime is not lost.
func TestJourney_AListStandsStillUnderThePointer(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	steps(t, tab, chromedp.Navigate(url+"/console/denials"), chromedp.WaitVisible("[data-denial='0']"))
	until(t, tab, live)
	place := value[[]float64](t, tab, `(r => [r.left + 20, r.top + 5])(document.querySelector("[data-denial='3']").getBoundingClientRect())`)
	steps(t, tab, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, place[0], place[1]))
	until(t, tab, `document.querySelector("[data-live-state]").textContent.startsWith("Paused while")`)
	_ = value[bool](t, tab, `document.addEventListener("htmx:sse:before:message", e => { if (e.detail.message.data.includes("user:late")) window.came = true; }), true`)
	w.Fleet.Deny(history.Request{ID: "late", Rule: "charges-per-user", Key: "user:late", Mode: rules.ModeEnforce,
		Status: 429, At: webtest.Now.UnixMilli()})
	until(t, tab, `window.came`)
	if value[bool](t, tab, `document.querySelector("[data-denial='late']") !== null`) {
		t.Error("the list moved under the pointer")
	}
	steps(t, tab, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 1, 1))
	until(t, tab, `document.querySelector("[data-denial='late']") !== null`)
}

func TestJourney_ACurlCommandIsExplained(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	steps(t, tab,
		chromedp.Navigate(url+"/console/explain"), chromedp.WaitVisible("#f-paste"),
		chromedp.SetValue("#f-paste", "curl -X POST 'https://api.example.com/v1/charges?a=b' \\\n  -H 'X-User-Id: 77' -H "+
			"'X-Tenant: acme' \\\n  -d '{\"amount\": 5}'"),
		chromedp.Click(`form:has(#f-paste) button`), chromedp.WaitVisible(".verdict"),
	)
	page := shownText(t, tab, "main")
	for _, want := range []string{"allowed", "user:77", "x-tenant", "charges-per-user", "100"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	steps(t, tab, chromedp.SetValue("#f-weight", "101"), chromedp.Click(`form:has(#f-weight) button`),
		chromedp.WaitVisible(".verdict .badge.bad"))
	if got := shownText(t, tab, ".verdict"); !strings.Contains(got, "Retrying will not help") {
		t.Errorf("a weight above the limit: %s", got)
	}
}

func TestJourney_AKeyIsResetBlockedAndLetGo(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	w.Clock.Add(11 * time.Minute) // the password was given too long ago for what cannot be undone
	spend(t, w, "43")
	steps(t, tab,
		chromedp.Navigate(url+"/console/denials?key=user%3A43"), chromedp.WaitVisible("#live-samples"),
		chromedp.Click(`#live-samples tr:not(.repeat) a[href*="key=user%3A43"]`), chromedp.WaitVisible(`form[action="/console/keys/reset"]`),
	)
	if got := shownText(t, tab, "main"); !strings.Contains(got, "0 of 100") || !strings.Contains(got, "denied") {
		t.Fatalf("the bucket:\n%s", got)
	}
	steps(t, tab, chromedp.Click(`form[action="/console/keys/reset"] button`), chromedp.WaitVisible("#f-confirm_password"))
	if len(w.Counters.Notes) != 0 {
		t.Error("reset without the password")
	}
	tab.Forgive() // the browser notes the 422
	steps(t, tab, chromedp.SendKeys("#f-confirm_password", webtest.Password+kb.Enter),
		chromedp.WaitVisible("[data-flash]"))
	if got := shownText(t, tab, "main"); !strings.Contains(got, "100 of 100") || len(w.Counters.Notes) != 1 {
		t.Errorf("after the reset, noted %q:\n%s", w.Counters.Notes, got)
	}
	steps(t, tab,
		chromedp.SetValue("#f-reason", "Ticket 9: card testing."), chromedp.SetValue("#f-hours", "1"),
		chromedp.Click(`form.stack[action="/console/keys/override"] button`),
		chromedp.WaitVisible(`form[action="/console/keys/lift"]`),
	)
	if got := shownText(t, tab, "main"); !strings.Contains(got, "Ticket 9: card testing.") ||
		!strings.Contains(got, "blocked") || !strings.Contains(got, "blocked, limit 0") || strings.Contains(got, "0 of 0") {
		t.Errorf("blocked:\n%s", got)
	}
	steps(t, tab, chromedp.Click(`form[action="/console/keys/lift"] button`),
		chromedp.WaitVisible(`form.stack[action="/console/keys/override"]`))
	if got := shownText(t, tab, "main"); !strings.Contains(got, "100 of 100") {
		t.Errorf("let go:\n%s", got)
	}
}

// TestJourney_NewDenialsShiftNothing measures what a browser calls layout shift while
// denials come in, on the list and on the overview.
func TestJourney_NewDenialsShiftNothing(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	for _, path := range []string{"/console/denials", "/console"} {
		for _, width := range []int64{390, 1280} {
			if err := tab.Show(width, 800, false); err != nil {
				t.Fatal(err)
			}
			steps(t, tab, chromedp.Navigate(url+path), chromedp.WaitReady(".denials"))
			until(t, tab, live)
			_ = value[bool](t, tab, `{
				window.shift = 0;
				document.querySelector(".denials").scrollIntoView();
				new PerformanceObserver((all) => {
					for (const e of all.getEntries()) window.shift += e.value;
				}).observe({ type: "layout-shift" });
			} true`)
			for n := range 2 {
				id := fmt.Sprintf("%d-%d-%d", n, width, len(path))
				user := "user:" + id + "-with-a-rather-long-name-that-does-not-fit"
				w.Fleet.Deny(history.Request{
					ID: id, Rule: "charges-per-user", Key: user, Bucket: user, Mode: rules.ModeEnforce, Status: 429, Limit: 7,
					Weight: 3,
					At:     webtest.Now.UnixMilli(), Method: "POST", Route: "/v1/charges",
				})
				until(t, tab, `document.querySelector("[data-denial='`+id+`']") !== null`)
			}
			const frames = `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`
			if _, err := chromedp.Run(tab.Ctx, chromedp.Evaluate[bool](frames, chromedp.EvalAwaitPromise)); err != nil {
				t.Fatal(err)
			}
			if got := value[float64](t, tab, `window.shift`); got >= .1 {
				t.Errorf("%s, %d pixels wide: layout shift %.2f", path, width, got)
			}
		}
	}
}
