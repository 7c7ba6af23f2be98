package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/web/webtest"
)

// TestRuleStream_SendsWhatChangedAndNoMore: the first message has all that moves, later
// ones only the pieces that are not as they were.
func TestRuleStream_SendsWhatChangedAndNoMore(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	lines := listen(t, w, "/console/events?rule=7&version=3&range=1h", w.As(access.RoleViewer))
	first, ok := message(lines)
	for _, want := range []string{
		`hx-target="#minute-allowed .figure"`, `hx-target="#trial-denied .figure"`, "of 7,399 requests",
		`hx-target="#timeline-rows"`,
		`hx-target="#timeline-sum"`, `hx-target="#live-denied-keys"`, "user:acme-batch", `hx-target="#live-hot"`,
	} {
		if !ok || !strings.Contains(first, want) {
			t.Errorf("the first message lacks %s", want)
		}
	}
	w.Stats.Change(func(f *webtest.Stats) {
		f.Keys[0].Key, f.Keys[0].Denied = `user:<img src=x onerror=alert(1)>`, 4321
		f.Last.Allowed = 987654
	})
	w.Figures.Change(func(f *webtest.Figures) {
		f.Trials[history.Trial{Rule: 7, Version: 3}] = history.TrialCounts{Seen: 8000, Denied: 4}
	})
	next := ""
	for !strings.Contains(next, "4,321") {
		if next, ok = message(lines); !ok {
			t.Fatal("the stream ended")
		}
	}
	for _, want := range []string{"of 8,000 requests", "1,033,957 allowed", "&lt;img src=x onerror=alert(1)&gt;",
		`#timeline-rows &gt; [data-at=`} {
		if !strings.Contains(next, want) {
			t.Errorf("the message lacks %s:\n%s", want, next)
		}
	}
	for _, not := range []string{"<img", "#minute-", "#live-hot", `hx-target="#timeline-rows"`} {
		if strings.Contains(next, not) {
			t.Errorf("the message has %s", not)
		}
	}
	if n := strings.Count(next, "data-label=\"Allowed\""); n > 3 {
		t.Errorf("%d rows of the chart were sent, want those that may grow", n)
	}
}

// TestRuleStream_ToldOfAnotherVersionSendsNoFigures: what a page shows of a rule fits the
// version that it was made from.
func TestRuleStream_ToldOfAnotherVersionSendsNoFigures(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleViewer)
	if page := b.Get("/console/events?rule=7&version=3"); page.Has("was changed or deleted") ||
		!page.Has("#timeline-rows") {
		t.Error("the version that is in force")
	}
	if page := b.Get("/console/events?rule=7&version=2"); !page.Has("was changed or deleted", "Reload") ||
		page.Has("#timeline-rows") {
		t.Error("a rule that changed")
	}
	page := b.Get("/console/events?rule=7&version=4")
	if page.Has("was changed or deleted") || page.Has("#timeline-rows") {
		t.Error("a node that is behind")
	}
	if page := b.Get("/console/events?rule=99&version=1"); !page.Has("was changed or deleted") {
		t.Error("a rule that is gone")
	}
	off := &w.Rules.List[0]
	off.IsActive = false
	if err := w.Compile(); err != nil {
		t.Fatal(err)
	}
	if page := b.Get("/console/events?rule=1&version=1"); page.Has("was changed or deleted") ||
		!page.Has("#timeline-rows") {
		t.Error("a rule that is off")
	}
}

// TestJourney_TheRulePageMoves: chart, sum, trial and keys follow the figures, and nothing
// else on the page moves for it.
func TestJourney_TheRulePageMoves(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	w.Stats.Change(func(f *webtest.Stats) { f.Keys = f.Keys[:3] })
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	for _, width := range []int64{390, 1280} {
		if err := tab.Show(width, 800, false); err != nil {
			t.Fatal(err)
		}
		steps(t, tab, chromedp.Navigate(url+"/console/rules/7"), chromedp.WaitReady("#timeline-drawn"))
		until(t, tab, live)
		_ = value[bool](t, tab, `{
			window.shift = 0;
			window.drawn = document.querySelector("#timeline-drawn .plot").getAttribute("aria-label");
			window.before = document.querySelector("#timeline-rows tr:last-child").textContent;
			document.querySelector("#live-denied-keys").scrollIntoView();
			new PerformanceObserver((all) => {
				for (const e of all.getEntries()) window.shift += e.value;
			}).observe({ type: "layout-shift" });
		} true`)
		w.Stats.Change(func(f *webtest.Stats) {
			f.Last.Allowed += 987654
			f.Keys = append(f.Keys, history.Row{Key: "user:late", Denied: width})
		})
		w.Figures.Change(func(f *webtest.Figures) {
			f.Trials[history.Trial{Rule: 7, Version: 3}] = history.TrialCounts{Seen: 8000 + width/10, Denied: width}
		})
		until(t, tab, `document.querySelector("#timeline-rows tr:last-child").textContent !== window.before`)
		until(t, tab, `document.querySelector("#live-denied-keys").textContent.includes("user:late")`)
		until(t, tab, `document.querySelector("#trial-denied .note").textContent.includes("of 8,")`)
		until(t, tab, `/\d,\d+,\d+ allowed/.test(document.querySelector("#timeline-sum").textContent)`)
		until(t, tab, `document.querySelector("#timeline-drawn .plot").getAttribute("aria-label") !== window.drawn`)
		const frames = `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`
		if _, err := chromedp.Run(tab.Ctx, chromedp.Evaluate[bool](frames, chromedp.EvalAwaitPromise)); err != nil {
			t.Fatal(err)
		}
		if got := value[float64](t, tab, `window.shift`); got >= .01 {
			t.Errorf("%d pixels wide: layout shift %.3f", width, got)
		}
	}
}
