package web_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/web/webtest"
)

// lastingMark is the mark of an incident that began a while ago and lasts.
func lastingMark(ago time.Duration) history.Mark {
	return history.Mark{At: webtest.Now.Add(-ago), Kind: history.MarkBreaker, Incident: true, Node: "10.0.0.1:8080",
		Text: "breaker of 10.0.0.9:6379 opened: connection refused (2 nodes)"}
}

var bandRects = regexp.MustCompile(`<rect class="incident" x="([^"]*)" width="([^"]*)" y="0" height="100%">` +
	`<title>([^<]*)</title>`)

// Every chart over time has a band where an incident was, and the list of what happened names it.
func TestBands_EveryChartShowsIncidents(t *testing.T) {
	w := world(t, webtest.Full)
	w.Stats.Marked = append(w.Stats.Marked, lastingMark(30*time.Hour))
	b := w.As(access.RoleViewer)
	const over, lasts = "breaker of 10.0.0.9:6379 opened: connection refused (2 nodes)", ", not over yet"
	for path, want := range map[string][][]string{
		"/console":                     {{"0.0%", "100.0%", over + lasts}},
		"/console/traffic?range=1h":    {{"16.7%", "1.8%", over}, {"0.0%", "100.0%", over + lasts}},
		"/console/traffic?range=30d":   {{"", "0.3%", over}, {"", "", over + lasts}},
		"/console/rules/1?range=1h":    {{"16.7%", "1.8%", over}, {"0.0%", "100.0%", over + lasts}},
		"/console/tenants?tenant=acme": {{"", "", over}, {"0.0%", "100.0%", over + lasts}},
	} {
		page := b.Get(path)
		got := bandRects.FindAllStringSubmatch(page.Body, -1)
		if len(got) != len(want) {
			t.Errorf("%s has %d bands, want %d", path, len(got), len(want))
			continue
		}
		for i := range want {
			for j, text := range want[i] {
				if text != "" && got[i][1+j] != text {
					t.Errorf("%s: band %d is %q, want %q", path, i, got[i][1:], want[i])
				}
			}
		}
		if n := fmt.Sprintf(`<span class="swatch incident">%d incident`, len(want)); !page.Has(n, "running</span>", over) {
			t.Errorf("%s does not name its incidents", path)
		}
	}
}

// A chart names the versions that edits made. Of edits close together it names the newest.
func TestBands_ChangesCarryTheirVersion(t *testing.T) {
	w := world(t, webtest.Full)
	for i, ago := range []time.Duration{30 * time.Minute, 29 * time.Minute, time.Minute} { // as the history lists them
		w.Stats.Marked = append(w.Stats.Marked, history.Mark{At: webtest.Now.Add(-ago), Kind: history.MarkChange,
			Rule: "charges-per-user", RuleID: 1, Version: int64(4 + i), Text: fmt.Sprintf("version %d: limit 1 to 2", 4+i)})
	}
	page := w.As(access.RoleViewer).Get("/console/rules/1?range=1h")
	var got []string
	for _, m := range regexp.MustCompile(`<text class="([a-z]*)" x="[0-9.]*%" y="32">(v\d+)</text>`).
		FindAllStringSubmatch(page.Body, -1) {
		got = append(got, m[2]+" "+m[1])
	}
	if len(got) != 2 || !strings.Contains(strings.Join(got, ","), "v5 start") ||
		!strings.Contains(strings.Join(got, ","), "v6 end") {
		t.Errorf("the chart names the versions %q", got)
	}
	if !page.Has("<title>charges-per-user version 4: limit 1 to 2</title>", "version 6: limit 1 to 2</span>") {
		t.Error("a mark does not name its version")
	}
}

// The band of an incident that lasts covers the chart in light and dark, and a point within it says so.
func TestJourney_AnIncidentIsABand(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	w.Stats.Marked = append(w.Stats.Marked, lastingMark(30*time.Hour))
	url, tab := serve(t, w), tab(t)
	if err := tab.SetCookies(url, w.As(access.RoleViewer).Cookies()); err != nil {
		t.Fatal(err)
	}
	steps(t, tab, chromedp.Navigate(url+"/console/traffic?range=1h"), chromedp.WaitVisible("[data-plot]"))
	const box = `(() => {
		const [band, plot] = [".graph .incident", "[data-plot]"].map((s) =>
			document.querySelectorAll(s)).map((all) => all[all.length - 1].getBoundingClientRect());
		return Math.round(100 * band.width / plot.width);
	})()`
	if got := value[int](t, tab, box); got != 100 {
		t.Errorf("the band covers %d %% of the chart", got)
	}
	colors := map[string]bool{}
	for _, theme := range []string{"light", "dark"} {
		const paint = `(() => {
			document.documentElement.dataset.theme = "%s";
			const of = (s, what) => getComputedStyle(document.querySelector(s))[what];
			return [of(".graph .incident", "fill"), of(".card", "backgroundColor"),
				of(".graph .incident", "fillOpacity")].join("|");
		})()`
		got := strings.Split(value[string](t, tab, fmt.Sprintf(paint, theme)), "|")
		if got[0] == got[1] || colors[got[0]] || got[2] == "0" {
			t.Errorf("%s: %q", theme, got)
		}
		colors[got[0]] = true
	}
	tabTo(t, tab, "[data-plot]")
	steps(t, tab, chromedp.KeyEvent(kb.End), chromedp.KeyEvent(kb.ArrowLeft))
	told := value[string](t, tab, `document.querySelector("[data-plot]").getAttribute("aria-valuetext")`)
	if !strings.Contains(told, "; since ") || !strings.Contains(told, ": breaker of 10.0.0.9:6379 opened") {
		t.Errorf("a point within the incident is told as %q", told)
	}
}
