package web_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// chartOn is a tab with a page that has a chart.
func chartOn(t *testing.T, w *webtest.World, path string) *browsertest.Tab {
	t.Helper()
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	steps(t, tab, chromedp.Navigate(url+path), chromedp.WaitReady("[data-plot][role=slider]"))
	return tab
}

// pointAt moves the mouse to a place of the plot, in parts of its width and height.
func pointAt(t *testing.T, tab *browsertest.Tab, x, y float64) {
	t.Helper()
	box := value[[]float64](t, tab, `(e => { e.scrollIntoView({ block: "center" });
		const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })(
		document.querySelector("[data-plot]"))`)
	steps(t, tab, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, box[0]+box[2]*x, box[1]+box[3]*y))
}

const boxText = `(e => e.hidden ? "" : e.innerText.replace(/\s+/g, " "))(document.querySelector("[data-point]"))`

// crossing are the places of the line in each drawing of the page, "" where there is none.
const crossing = `[...document.querySelectorAll(".cross")].map((e) => e.hasAttribute("hidden") ? "" :
	e.firstElementChild.getAttribute("x1")).join(" ")`

func TestJourney_ABoxFollowsThePointer(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	w.Stats.Marked = append(w.Stats.Marked, history.Mark{At: webtest.Now.Add(-30 * time.Minute), Kind: history.MarkNode,
		Text: `node <img src=x onerror="alert(1)"> started`})
	tab := chartOn(t, w, "/console/traffic?range=1h")
	const outside = `(([b, p]) => [b.left < p.left - 1, b.right > p.right + 1, b.top < p.top - 1, b.bottom > p.bottom + 1]
		.some(Boolean))(["[data-point]", "[data-plot]"].map((s) => document.querySelector(s).getBoundingClientRect()))`
	for _, width := range []int64{1280, 320} {
		if err := tab.Show(width, 800, width < 600); err != nil {
			t.Fatal(err)
		}
		said := map[string]bool{}
		for _, x := range []float64{0.01, .3, .5, .75, .99} {
			for _, y := range []float64{.02, .97} {
				pointAt(t, tab, x, y)
				got := value[string](t, tab, boxText)
				if said[got] = true; !strings.Contains(got, "/s") || !strings.Contains(got, "Denied") {
					t.Errorf("at %v of %d pixels the box says %q", x, width, got)
				}
				if value[bool](t, tab, outside) {
					t.Errorf("at %v, %v of %d pixels the box leaves the plot", x, y, width)
				}
			}
		}
		if len(said) != 5 {
			t.Errorf("five points are told in %d ways", len(said))
		}
	}
	pointAt(t, tab, .508, .5)
	if got := value[string](t, tab, boxText); !strings.Contains(got, `node <img src=x onerror="alert(1)"> started`) ||
		value[bool](t, tab, `document.querySelector("[data-point] img") !== null`) {
		t.Errorf("the text of a mark is not escaped: %q", got)
	}
	// The figures are those of the row of the table, per second.
	got := value[string](t, tab, `(c => c.textContent.trim() + " " + c.dataset.rate + " " +
		Math.round(Number(c.textContent.replaceAll(",", "")) / 60) + "/s")(
		document.querySelectorAll("[data-rows] tr")[30].cells[1])`)
	if count, rates, _ := strings.Cut(got, " "); !strings.Contains(value[string](t, tab, boxText), "Allowed "+
		strings.Fields(rates)[0]+" "+count) || strings.Fields(rates)[0] != strings.Fields(rates)[1] {
		t.Errorf("the box says %q, the table %q", value[string](t, tab, boxText), got)
	}
	steps(t, tab, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 2, 2))
	if got := value[string](t, tab, boxText+" + "+crossing); strings.TrimSpace(got) != "" {
		t.Errorf("without the pointer: %q", got)
	}
}

// One line goes through the chart of a rule and the strip of the use of its limit.
func TestJourney_OneLineThroughAllCharts(t *testing.T) {
	t.Parallel()
	tab := chartOn(t, world(t, webtest.Full), "/console/rules/1?range=1h")
	pointAt(t, tab, .508, .5)
	places := strings.Fields(value[string](t, tab, crossing))
	if len(places) != 2 || places[0] != places[1] || !strings.HasPrefix(places[0], "50.8") {
		t.Errorf("the line is at %q", places)
	}
	tabTo(t, tab, "[data-plot]")
	steps(t, tab, chromedp.KeyEvent(kb.Home))
	places = strings.Fields(value[string](t, tab, crossing))
	if len(places) != 2 || places[0] != places[1] || !strings.HasPrefix(places[0], "0.8") {
		t.Errorf("by keyboard the line is at %q", places)
	}
	if got := value[string](t, tab, boxText); !strings.Contains(got, "/s") {
		t.Errorf("by keyboard the box says %q", got)
	}
	steps(t, tab, chromedp.KeyEvent(kb.Tab))
	if got := strings.TrimSpace(value[string](t, tab, crossing+" + "+boxText)); got != "" {
		t.Errorf("without the focus: %q", got)
	}
}

// The legend hides layers, and the others are drawn to their own scale, also after the next live figures.
func TestJourney_TheLegendHidesALayer(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	tab := chartOn(t, w, "/console/traffic?range=1h")
	const drawn = `((top, path) => [top.at(-1).textContent, path("good"), path("bad").slice(0, 12)].join("|"))(
		[...document.querySelectorAll(".axis-y text")], (l) => {
			const p = document.querySelector(".plot [data-of=" + l + "]");
			return getComputedStyle(p).display === "none" ? "hidden" : p.getAttribute("d");
		})`
	const key = `.legend [data-layer=%s]`
	pressed := func(layer string) string {
		return value[string](t, tab, `document.querySelector("`+fmt.Sprintf(key, layer)+`").getAttribute("aria-pressed")`)
	}
	before := value[string](t, tab, drawn)
	tabTo(t, tab, fmt.Sprintf(key, "good"))
	steps(t, tab, chromedp.KeyEvent(kb.Enter), chromedp.Click(fmt.Sprintf(key, "info")))
	got := value[string](t, tab, drawn)
	if pressed("good") != "false" || pressed("bad") != "true" || !strings.HasPrefix(before, "50/s|M0.5 160.0") ||
		!strings.HasPrefix(got, "1/s|hidden|M0.5 160.0") {
		t.Errorf("before %.40q, without allowed requests %q", before, got)
	}
	pointAt(t, tab, .5, .5)
	if got := value[string](t, tab, boxText); strings.Contains(got, "Allowed") || !strings.Contains(got, "Denied") {
		t.Errorf("the box says %q", got)
	}
	until(t, tab, live)
	_ = value[bool](t, tab, `(window.before = document.querySelector("[data-sum]").textContent) !== ""`)
	w.Clock.Add(7 * time.Minute)
	until(t, tab, `window.before !== document.querySelector("[data-sum]").textContent`)
	if got := value[string](t, tab, drawn); !strings.Contains(got, "|hidden|M0.5 160.0") || pressed("good") != "false" {
		t.Errorf("after new figures: %q", got)
	}
	steps(t, tab, chromedp.Click(fmt.Sprintf(key, "good")), chromedp.Click(fmt.Sprintf(key, "info")))
	if got := value[string](t, tab, drawn); !strings.HasPrefix(got, "50/s|M0.5 160.0") {
		t.Errorf("all shown again: %.40q", got)
	}
}

// The script draws what the server draws, if nothing is hidden.
func TestJourney_TheScriptDrawsWhatTheServerDraws(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	w.Stats.Since = webtest.Now.Add(-40 * time.Minute)
	const drawn = `[...document.querySelectorAll(".plot path:not([data-strip]), .axis-y text")].map((e) =>
		(e.getAttribute("d") ?? "") + (e.getAttribute("y") ?? "") + e.textContent)`
	for _, path := range []string{"/console/traffic?range=1h&compare=yesterday", "/console/traffic?range=30d",
		"/console/keys?rule=charges-per-user&key=user:42"} {
		tab := chartOn(t, w, path)
		server := value[[]string](t, tab, drawn)
		steps(t, tab, chromedp.Click(".legend [data-layer]"), chromedp.Click(".legend [data-layer]"))
		script := value[[]string](t, tab, drawn)
		for i := range server {
			if len(script) != len(server) || !slices.Equal(pathNumbers(script[i]), pathNumbers(server[i])) {
				t.Errorf("%s: the server draws\n%.200s, the script\n%.200s", path, server[i], script[i])
				break
			}
		}
	}
}

// pathNumbers are the numbers of a drawing in whole units.
func pathNumbers(path string) (out []string) {
	for _, n := range strings.FieldsFunc(path, func(c rune) bool { return c != '.' && (c < '0' || c > '9') }) {
		whole, _, _ := strings.Cut(n, ".")
		out = append(out, whole)
	}
	return out
}

// A step of which nothing is known is a gap and no 0.
func TestJourney_AnUnknownStepIsAGap(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	w.Stats.Since = webtest.Now.Add(-30 * time.Minute)
	tab := chartOn(t, w, "/console/traffic?range=1h")
	pointAt(t, tab, .2, .5)
	if got := value[string](t, tab, boxText); !strings.Contains(got, "Denied not known") || strings.Contains(got, "0/s") {
		t.Errorf("the box says %q", got)
	}
	tabTo(t, tab, "[data-plot]")
	steps(t, tab, chromedp.KeyEvent(kb.Home))
	got := value[string](t, tab, `document.querySelector("[data-plot]").getAttribute("aria-valuetext")`)
	if !strings.HasSuffix(got, ": not known") {
		t.Errorf("the point is told as %q", got)
	}
}

// The ticks are at round times of the viewer, and where these times are.
func TestJourney_TicksAreRoundInTheViewersZone(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	if err := tab.Zone("Asia/Kathmandu"); err != nil { // 5 h 45 min ahead
		t.Fatal(err)
	}
	const ticks = `[...document.querySelectorAll(".axis-x text")].map((e) => e.getAttribute("x") + " " + e.textContent)`
	for path, want := range map[string][2]string{
		// from 17:45 on Friday to 17:45
		"range=24h": {"26.04", "Nov 21"}, "range=1h": {"25%", "5:00 PM"}, "range=30d": {"", "Nov"},
	} {
		steps(t, tab, chromedp.Navigate(url+"/console/traffic?"+path), chromedp.WaitReady("[data-plot][role=slider]"))
		list := value[[]string](t, tab, ticks)
		found := false
		for _, tick := range list {
			place, text, _ := strings.Cut(strings.ReplaceAll(tick, "\u202f", " "), " ")
			found = found || strings.HasPrefix(text, want[1]) && strings.HasPrefix(place, want[0])
			if !strings.HasPrefix(text, "Nov ") && !strings.HasPrefix(text, "Oct ") && !strings.Contains(text, "0 ") {
				t.Errorf("%s: %q is not round", path, text)
			}
		}
		if !found || len(list) < 3 || len(list) > 8 {
			t.Errorf("%s has the ticks %q, want %q", path, list, want)
		}
	}
	if err := tab.WithoutScripts(); err != nil {
		t.Fatal(err)
	}
	steps(t, tab, chromedp.Navigate(url+"/console/traffic?range=24h"), chromedp.WaitReady(".axis-x"))
	if got := strings.Join(value[[]string](t, tab, ticks), ", "); got !=
		"0.0% 12:00 UTC, 25.0% 18:00, 50.0% Nov 21, 75.0% 06:00, 100.0% 12:00" {
		t.Errorf("without a script: %s", got)
	}
	if got := value[string](t, tab, `[...document.querySelectorAll(".legend [data-layer]")].map((e) => e.tagName)
		.join()`); got != "SPAN,SPAN,SPAN,SPAN" {
		t.Errorf("without a script the legend has %s", got)
	}
}
