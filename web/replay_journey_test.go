package web_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/access"
	"sluice/internal/backtest"
	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// From the editor to the differences and the picture and back, by keyboard, with what was typed kept.
func TestJourney_TryAnEditOnRecentTraffic(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	steps(t, tab, chromedp.Navigate(url+"/console/rules/1/edit"), chromedp.WaitVisible("#f-limit"),
		chromedp.SetValue("#f-limit", "60"))
	tabTo(t, tab, "#replay button")
	steps(t, tab, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(".demand"))
	if got := value[string](t, tab, `document.querySelector("main .summary").textContent`); !strings.Contains(got,
		"11,930 would be newly denied") {
		t.Errorf("the page says %q", got)
	}
	colours := map[string]bool{}
	for _, dark := range []bool{false, true} {
		if err := tab.Show(1280, 800, dark); err != nil {
			t.Fatal(err)
		}
		// The picture is drawn, and what is above the limit is told from what is within it.
		colours[value[string](t, tab, `getComputedStyle(document.querySelector(".demand-over")).fill`)] = true
		if !value[bool](t, tab, `(() => { const over = document.querySelector(".demand-over"), box = over.getBoundingClientRect();
			const within = document.querySelector(".demand-in");
			return box.width > 300 && box.height > 20 && getComputedStyle(over).fill != getComputedStyle(within).fill; })()`) {
			t.Errorf("dark %t: the picture is not drawn", dark)
		}
	}
	if len(colours) != 2 {
		t.Errorf("the picture has the same colours in both themes: %v", colours)
	}
	tabTo(t, tab, `form[action*="/preview"] button`)
	steps(t, tab, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#f-limit"))
	if got := value[string](t, tab, `document.getElementById("f-limit").value`); got != "60" {
		t.Errorf("the editor has the limit %s", got)
	}
	if w.Rules.Named("charges-per-user").Limit != 100 || w.Changes > 0 {
		t.Error("trying has saved the rule")
	}
}

// endless is a decision log without an end.
type endless struct{ n int64 }

func (e *endless) Name() string { return "endless" }

func (e *endless) Next(ctx context.Context) ([]byte, int64, error) {
	select {
	case <-ctx.Done():
		return nil, e.n, ctx.Err()
	case <-time.After(time.Millisecond):
	}
	e.n++
	return fmt.Appendf(nil, `{"schema":1,"ts":%d,"op":"check","allowed":true,"weight":1,"rate":100,"drawn":true,"facts":{"user":"1"}}`,
		webtest.Now.UnixMilli()-3_600_000+e.n*1000), e.n, nil
}

func forever(w *webtest.World) {
	w.OpenLog = func(context.Context, int64) (*backtest.Log, func(), error) {
		return backtest.NewLog(&endless{}), func() {}, nil
	}
}

func TestJourney_CancelAReplay(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	forever(w)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	try := func() {
		t.Helper()
		steps(t, tab, chromedp.Navigate(url+"/console/rules/1/edit"), chromedp.WaitVisible("#f-limit"),
			chromedp.Click(`#replay button`), chromedp.WaitVisible("#job progress"))
		// The progress moves by itself, and the focus stays where it is.
		steps(t, tab, browsertest.Script(`document.querySelector("main form .button").focus()`))
		until(t, tab, `parseInt(document.querySelector("#job p").textContent.replace(",", "")) > 100`)
	}
	try()
	tabTo(t, tab, `form[action$="/cancel"] button`)
	steps(t, tab, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("main .notice"))
	if got := value[string](t, tab, `document.querySelector("main .notice").textContent`); !strings.Contains(got, "Cancelled after") {
		t.Errorf("the page says %q", got)
	}
	w.Replays.Wait()
	// Leaving the page ends a replay too.
	try()
	steps(t, tab, chromedp.Navigate(url+"/console/rules"), chromedp.WaitVisible("main table"))
	w.Clock.Add(11 * time.Second)
	w.Replays.Wait()
}

func TestJourney_ASuggestedLimitBecomesACandidate(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	steps(t, tab, chromedp.Navigate(url+"/console/rules/1"), chromedp.WaitVisible("#recorded"),
		chromedp.Click(`#recorded a[href$="/suggest"]`), chromedp.WaitVisible("#f-windows"),
		chromedp.SetValue("#f-windows", "1m"), chromedp.SetValue("#f-headroom", "1"))
	tabTo(t, tab, `form[action$="/suggest"] button`)
	steps(t, tab, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("main table"))
	if got := value[int](t, tab, `document.querySelectorAll("main tbody tr").length`); got != 5 {
		t.Errorf("%d suggestions", got)
	}
	tabTo(t, tab, `[aria-label="Make candidate: 130 per minute"]`)
	steps(t, tab, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("[data-flash]"))
	if got := value[string](t, tab, `document.querySelector("[data-flash]").textContent`); !strings.Contains(got,
		"has a candidate of 130 per minute") {
		t.Errorf("the page says %q", got)
	}
	if r := w.Rules.Named("charges-per-user"); r.Limit != 100 || r.Candidate == nil || *r.Candidate.Limit != 130 {
		t.Errorf("stored %+v", r.Candidate)
	}
}
