package web_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// busyClients are three clients of the first rule with 24 hours each: 6,000 requests in one hour, the same number in
// each of two hours, and few. One hour of the last client is unknown.
func busyClients(w *webtest.World) {
	line := func(at map[int]int64) []int64 {
		out := make([]int64, 24)
		for i, n := range at {
			out[i] = n
		}
		return out
	}
	w.Stats.Keys = []history.Row{
		{Key: "user:flood", Allowed: 5000, Denied: 1000, Line: line(map[int]int64{3: 6000})},
		{Key: `user:<b>two</b>`, Allowed: 12_000, Line: line(map[int]int64{5: 6000, 6: 6000})},
		{Key: "user:quiet", Allowed: 60, Error: 7, Line: line(map[int]int64{1: 60, 2: history.LineUnknown})},
	}
}

// TestClients_TheServerSaysWhatALimitWouldHaveDenied without a script, for the typed limit.
func TestClients_TheServerSaysWhatALimitWouldHaveDenied(t *testing.T) {
	w := world(t, webtest.Full)
	busyClients(w)
	b := w.As(access.RoleEditor)
	saved := b.Get("/console/rules/1/edit")
	if !saved.Has("100 per minute would have denied none of about 18,060 requests of 3 clients.",
		"The rule as it was denied 1,000.", "by whole hours", "user:&lt;b&gt;two&lt;/b&gt;: 100 per minute",
		"may be wrong by up to 7", "are not known") {
		t.Error("the saved limit is not compared with the traffic")
	}
	form := url.Values{"id": {"1"}, "version": {"2"}, "name": {"charges-per-user"}, "scope": {"user"},
		"route": {"/v1/charges"}, "method": {"POST"}, "limit": {"90"}, "window_ms": {"1"}, "window_ms.unit": {"minute"},
		"algorithm": {"sliding_window_counter"}, "is_active": {"on"}, "do": {"preview"}}
	for _, c := range []struct {
		name, value, want string
	}{
		{"limit", "90", "90 per minute would have denied about 1,800 of 18,060 requests of 2 of 3 clients."},
		{"limit", "1", "1 per minute would have denied about 17,820 of 18,060 requests of 2 of 3 clients."},
		{"window_ms.unit", "hour", "90 per hour would have denied about 17,730 of 18,060 requests of 2 of 3 clients."},
		{"clients.range", "1h", "An estimate from the last hour, by whole hours."},
		{"limit", "many", "Enter a limit and a window"},
		{"scope", "ip", "You changed which requests the rule counts, or by what."},
		{"weight_field", "bytes", "The rule counts units, and the figures count requests."},
		{"algorithm", "concurrency", "The rule limits requests in progress"},
		{"unlimited", "on", "The rule denies nothing."},
		{"id", "", "A new rule has no traffic yet."},
	} {
		typed := url.Values{}
		for name, values := range form {
			typed[name] = values
		}
		typed.Set(c.name, c.value)
		if page := b.Post("/console/rules/preview", typed); !page.Has(c.want) {
			_, said, _ := strings.Cut(page.Body, `id="clients-bars"`)
			t.Errorf("with %s %s the page does not say %q but %.900s", c.name, c.value, c.want, said)
		}
	}
	w.Stats.Change(func(f *webtest.Stats) { f.Quiet = true })
	if page := b.Get("/console/rules/1/edit"); !page.Has("No requests of this rule are known in the last 24 hours.") {
		t.Error("no word about a rule without traffic")
	}
	w.Stats.Change(func(f *webtest.Stats) { f.Err = errors.New("away") })
	page := b.Get("/console/rules/1/edit")
	if page.Code != 200 || !page.Has("The figures of the rule could not be read.") {
		t.Errorf("without figures the editor answers %d", page.Code)
	}
}

const lineSays = `(e => [document.getElementById("f-limit").value, e.getAttribute("aria-valuenow"),
	e.getAttribute("aria-valuetext")].join("|"))(document.querySelector(".limit-slider"))`

// TestJourney_TheLimitIsALineToDrag: the line, the field and what the server says follow each other.
func TestJourney_TheLimitIsALineToDrag(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	busyClients(w)
	site := serve(t, w)
	tab := signedIn(t, w, site, access.RoleEditor)
	steps(t, tab, chromedp.Navigate(site+"/console/rules/1/edit"), chromedp.WaitReady(".limit-slider"))
	said := func(limit, verdict string) {
		t.Helper()
		until(t, tab, `(`+lineSays+`) === "`+limit+`|`+limit+`|`+limit+` per minute. `+limit+` per minute would have denied `+
			verdict+`"`)
	}
	said("100", "none of about 18,060 requests of 3 clients.")

	// The field moves the line.
	steps(t, tab, browsertest.Script(`document.getElementById("f-limit").select()`), chromedp.KeyEvent("90"))
	said("90", "about 1,800 of 18,060 requests of 2 of 3 clients.")
	const place = `Math.round(parseFloat(document.querySelector(".limit-slider").style.left))`
	if got := value[int](t, tab, place); got != 60 { // of 150
		t.Errorf("the line is at %d%%", got)
	}

	// The pointer moves the line to a third of the axis.
	box := value[[]float64](t, tab, `(() => {
		const line = document.querySelector(".limit-slider"), track = line.parentElement;
		track.scrollIntoView({ block: "center" });
		const [l, r] = [line.getBoundingClientRect(), track.getBoundingClientRect()];
		return [l.left + l.width / 2, l.top + l.height / 2, r.left + r.width / 3];
	})()`)
	mouse := func(kind input.DispatchMouseEventType, x float64) chromedp.Action[chromedp.Void] {
		return chromedp.MouseEvent(kind, x, box[1], chromedp.ButtonLeft)
	}
	steps(t, tab, mouse(input.DispatchMouseEventTypeMousePressed, box[0]),
		mouse(input.DispatchMouseEventTypeMouseMoved, box[2]+40), mouse(input.DispatchMouseEventTypeMouseMoved, box[2]),
		mouse(input.DispatchMouseEventTypeMouseReleased, box[2]))
	said("50", "about 9,000 of 18,060 requests of 2 of 3 clients.")
	const over = `[...document.querySelectorAll(".clients .over")].map((e) => Math.round(e.getAttribute("width")))
		.join(" ")`
	if got := value[string](t, tab, over); got != "333 333 0" {
		t.Errorf("the parts of the bars over the limit are %s", got)
	}

	// So do the keys, and the focus stays on the line.
	steps(t, tab, chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.PageUp), chromedp.KeyEvent(kb.PageUp))
	said("71", "about 5,220 of 18,060 requests of 2 of 3 clients.")
	steps(t, tab, chromedp.KeyEvent(kb.Home))
	said("1", "about 17,820 of 18,060 requests of 2 of 3 clients.")
	if !value[bool](t, tab, `document.activeElement.matches(".limit-slider[role=slider]")`) {
		t.Error("the line lost the focus")
	}
	if r := w.Rules.Named("charges-per-user"); r.Limit != 100 {
		t.Errorf("the limit was saved as %d", r.Limit)
	}
}

// TestJourney_TheLimitAndItsClientsAreAccessible at three widths and in both themes.
func TestJourney_TheLimitAndItsClientsAreAccessible(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	busyClients(w)
	site := serve(t, w)
	tab := signedIn(t, w, site, access.RoleEditor)
	if err := tab.Checker(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/console/rules/1/edit", "/console/rules/new"} {
		for _, width := range []int64{320, 1440} {
			if err := tab.Show(width, 900, width == 320); err != nil {
				t.Fatal(err)
			}
			steps(t, tab, chromedp.Navigate(site+path), chromedp.WaitReady(".limit-track"))
			if wide, err := tab.Wide(); err != nil || wide > 0 {
				t.Errorf("%s, %d wide: %d pixels too wide (%v)", path, width, wide, err)
			}
			found, err := tab.Violations()
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range found {
				t.Errorf("%s, %d wide: %s", path, width, v)
			}
		}
	}
}
