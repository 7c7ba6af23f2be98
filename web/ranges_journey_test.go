package web_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/access"
	"sluice/web/webtest"
)

// rowsOfChart are the times and the decisions of the chart, as its table shows them.
const rowsOfChart = `[...document.querySelectorAll("[data-rows] tr")].map((r) => r.cells[0].textContent.trim())`

// sumsOfChart are the numbers below the chart, and the sums of its table: allowed, would be denied, denied.
const sumsOfChart = `(n => [...document.querySelector("[data-sum]").textContent.matchAll(/([\d,]+) (allowed|denied)/g)]
	.map((m) => n(m[1]))
	.concat([1, 2, 3].map((c) => [...document.querySelectorAll("[data-rows] tr")]
		.reduce((sum, r) => sum + (n(r.cells[c].textContent) || 0), 0))))
	((text) => Number(text.replaceAll(",", "")))`

// TestJourney_ARangeAcrossAChangeOfClocks: a day of the viewer has 25 hours in autumn and 23 in spring, and each of
// them is told from the others.
func TestJourney_ARangeAcrossAChangeOfClocks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone, day, next string
		rows            int
		twice           string
	}{
		{"Europe/Berlin", "2026-10-25T00:00", "2026-10-26T00:00", 25, "2:00 AM GMT+2,2:00 AM GMT+1"},
		{"Australia/Sydney", "2026-10-04T00:00", "2026-10-05T00:00", 23, ""},
		{"Asia/Kolkata", "2026-11-20T00:00", "2026-11-21T00:00", 144, ""}, // by 10 minutes
	} {
		w := world(t, webtest.Full)
		site := serve(t, w)
		tab := signedIn(t, w, site, access.RoleViewer)
		if err := tab.Zone(c.zone); err != nil {
			t.Fatal(err)
		}
		steps(t, tab, chromedp.Navigate(site+"/console/traffic"), chromedp.WaitReady(".traffic"),
			chromedp.Click(".range-more summary"), chromedp.SetValue("#f-from", c.day),
			chromedp.SetValue("#f-to", c.next), chromedp.Click(".range-form button"))
		there(t, tab, "from=")
		until(t, tab, `document.querySelectorAll("[data-rows] tr").length > 1`)
		rows := value[[]string](t, tab, rowsOfChart)
		if len(rows) != c.rows {
			t.Errorf("%s has %d rows, want %d", c.day, len(rows), c.rows)
		}
		if all := slices.Compact(slices.Sorted(slices.Values(rows))); len(all) != len(rows) {
			t.Errorf("%s: some of the rows have the same name: %q", c.day, rows)
		}
		var twice []string
		for _, r := range rows {
			if _, clock, _ := strings.Cut(strings.ReplaceAll(r, "\u202f", " "), "6, "); strings.Contains(r, "GMT") {
				twice = append(twice, clock)
			}
		}
		if got := strings.Join(twice, ","); got != c.twice {
			t.Errorf("%s has %q twice, want %q", c.day, got, c.twice)
		}
		if !strings.Contains(rows[0], "12:00") || !strings.Contains(rows[len(rows)-1], "11:") {
			t.Errorf("%s is from %s to %s", c.day, rows[0], rows[len(rows)-1])
		}
		if n := value[[]int64](t, tab, sumsOfChart); len(n) != 5 || n[0] == 0 || n[0] != n[2]+n[3] || n[1] != n[4] {
			t.Errorf("%s: allowed and denied are %v, below the chart and in its table", c.day, n)
		}
	}
}

// TestRanges_AnHourThatNoClockShowsIsRefused, and nothing typed is lost.
func TestRanges_AnHourThatNoClockShowsIsRefused(t *testing.T) {
	w := world(t, webtest.Full)
	q := url.Values{"from": {"2026-03-29T02:30"}, "to": {"2026-03-30T00:00"}, "zone": {"Europe/Berlin"}, "by": {"key"}}
	page := w.As(access.RoleViewer).Get("/console/traffic?" + q.Encode())
	if page.Code != 422 {
		t.Errorf("status %d", page.Code)
	}
	for _, want := range []string{"does not exist in this time zone", `value="2026-03-29T02:30"`, `value="Europe/Berlin"`,
		`value="2026-03-30T00:00"`, `name="by" value="key"`} {
		if !strings.Contains(page.Body, want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestJourney_AChartIsReadAndZoomedByKeyboardAlone, and a change is taken back from its mark.
func TestJourney_AChartIsReadAndZoomedByKeyboardAlone(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	site := serve(t, w)
	tab := signedIn(t, w, site, access.RoleEditor)
	steps(t, tab, chromedp.Navigate(site+"/console/traffic?range=30d&rule=charges-per-user"),
		chromedp.WaitReady(".traffic"))
	press := func(keys ...string) {
		t.Helper()
		for _, k := range keys {
			steps(t, tab, chromedp.KeyEvent(k))
		}
	}
	const says = `(p => p.getAttribute("aria-valuetext") + "|" +
		document.querySelector("[data-point]").textContent)(document.querySelector("[data-plot]"))`
	tabTo(t, tab, "[data-plot]")
	press(kb.End, kb.ArrowLeft, kb.ArrowLeft, kb.ArrowLeft, kb.ArrowLeft)
	told, shown, _ := strings.Cut(value[string](t, tab, says), "|")
	const change = "version 3: limit 120 to 100 by edda: The card processor asked for it."
	if strings.Count(told, change) != 1 || strings.Count(shown, change) != 1 || strings.Count(told, "version 3") != 1 {
		t.Errorf("the point of the change is told as %q and shown as %q", told, shown)
	}
	steps(t, tab, chromedp.KeyEvent(kb.ArrowRight, chromedp.KeyModifiers(chromedp.ModifierShift)),
		chromedp.KeyEvent(kb.ArrowRight, chromedp.KeyModifiers(chromedp.ModifierShift)))
	press(kb.Enter)
	there(t, tab, "from=")
	const asked = `(q => [(new Date(q.get("to")) - new Date(q.get("from"))) / 3600000, q.get("rule")].join(" "))
		(new URLSearchParams(location.search))`
	if got := value[string](t, tab, asked); got != "18 charges-per-user" {
		t.Errorf("three points of six hours lead to %s", got)
	}
	tabTo(t, tab, ".happened summary")
	press(kb.Enter)
	tabTo(t, tab, `.happened a[href$="/rollback?to=2"]`)
	if label := value[string](t, tab, `document.activeElement.getAttribute("aria-label")`); label !=
		"Roll back charges-per-user to version 2" {
		t.Errorf("the link is called %q", label)
	}
	press(kb.Enter)
	until(t, tab, `location.pathname === "/console/rules/1/rollback" || location.pathname === "/console/rules/1"`)
}
