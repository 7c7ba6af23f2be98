package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/internal/trouble"
	"sluice/web"
	"sluice/web/webtest"
)

// TestJourney_WarningsComeAndGoWithoutAReload: a region is lost and Redis fails while pages are open.
func TestJourney_WarningsComeAndGoWithoutAReload(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url, tab := serve(t, w), tab(t)
	if err := tab.SetCookies(url, w.As(access.RoleViewer).Cookies()); err != nil {
		t.Fatal(err)
	}
	const shown = `document.querySelector("#banners").innerText`
	for _, path := range []string{"/console", "/console/rules/1"} {
		steps(t, tab, chromedp.Navigate(url+path), chromedp.WaitVisible("[data-live-state]"))
		if got := value[string](t, tab, shown); got != "" {
			t.Errorf("%s on a good day: %q", path, got)
		}
		w.ChangeNode(func(n *web.Node) { n.CutOff = []string{"asia"} })
		until(t, tab, shown+`.includes("Cut off from this region: asia.")`)
		w.ChangeNode(func(n *web.Node) { n.CutOff = nil })
		until(t, tab, shown+` === ""`)
	}

	// Of several warnings none hides another.
	steps(t, tab, chromedp.Navigate(url+"/console/regions"), chromedp.WaitVisible("#live-regions"))
	w.ChangeNode(func(n *web.Node) {
		n.CutOff = []string{"asia"}
		other := webtest.RedisDown
		other.Subject = "10.0.0.8:6379"
		n.Trouble = []trouble.Trouble{webtest.RedisDown, other}
	})
	until(t, tab, shown+`.startsWith("Redis is unreachable.")`)
	if got := value[bool](t, tab, shown+`.includes("asia") || `+shown+`.split("Redis is").length !== 2 ||
		![...document.querySelectorAll("#live-notes .notice")].every(n => n.checkVisibility())`); got {
		t.Error("the page of regions says twice, or hides, that one is cut off")
	}
}
