//go:build sweep

package browsertest_test

import (
	"slices"
	"testing"

	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// maxWeight is the most bytes of a page on the wire with every asset it loads, 27,200 of them for the typeface.
const maxWeight = 127_200

// looks are how each page is seen. What a page is made of is the same whatever
// its colours, so in the dark only the colours are looked at; and those are the
// same whatever its width, but for the bar that only a phone has, so a few pages
// are enough there.
var looks = []struct {
	name  string
	width int64
	dark  bool
	rules []string
	pages []string
}{
	{"wide and light", 1280, false, nil, nil},
	{"wide and dark", 1280, true, []string{"color-contrast", "link-in-text-block"}, nil},
	{"on a dark phone", 390, true, []string{"color-contrast", "link-in-text-block"},
		[]string{"overview", "rules", "requests", "sign-in", "rule-edit"}},
	{phone, 390, false, nil, nil},
}

// phone is the look in which every target must be 24 pixels high and wide.
const phone = "on a phone"

// TestPages_AreAccessibleLightAndSpeakTheViewersTime holds every page of the
// gallery to what every page promises. The gallery has every page, see
// TestGallery_HasEveryPage in package web.
func TestPages_AreAccessibleLightAndSpeakTheViewersTime(t *testing.T) {
	for _, shown := range webtest.Gallery() {
		t.Run(shown.Name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, shown.Kind, shown.Prepare)
			tab, done := s.take(t, &checked, shown.Role)
			t.Cleanup(done)
			try(t, tab.Zone("Asia/Kathmandu"))
			s.show(t, tab, &shown)
			if weight, err := tab.Weight(); err != nil || weight > maxWeight {
				t.Errorf("the page weighs %d bytes (%v)", weight, err)
			}
			if status, err := tab.Status(); err != nil || status >= 400 && !value[bool](t, tab, atError) {
				t.Errorf("%d (%v), and the focus is at %s", status, err,
					value[string](t, tab, `document.activeElement.outerHTML.slice(0, 160)`))
			}
			for _, late := range value[[]string](t, tab, foreignTimes) {
				t.Errorf("not in the viewer's zone: %s", late)
			}
			for _, look := range looks {
				if look.pages != nil && !slices.Contains(look.pages, shown.Name) {
					continue
				}
				try(t, tab.Show(look.width, 800, look.dark))
				check(t, tab, look.name, look.rules)
				if look.name == phone {
					if small := value[string](t, tab, smallTargets); small != "" {
						t.Errorf("%s: targets below 24 pixels: %s", phone, small)
					}
				}
			}
			stray := tab.Stray()
			tab.Forgive()
			for _, c := range stray {
				t.Errorf("the page complains: %s", c)
			}
		})
	}
}

func check(t *testing.T, tab *browsertest.Tab, look string, rules []string) {
	t.Helper()
	if wide, err := tab.Wide(); err != nil || wide > 0 {
		t.Errorf("%s: the page is %d pixels too wide (%v): %v", look, wide, err, value[[]string](t, tab, sticksOut))
	}
	found, err := tab.Violations(rules...)
	try(t, err)
	for _, v := range found {
		t.Errorf("%s: %s", look, v)
	}
}

// atError: the focus of a page that refuses is where it says why, in the field that it asks
// for, or else at the page's heading.
const atError = `document.activeElement.matches("main [role=alert], main [aria-invalid=true], form[data-first] input, main h1")`

// foreignTimes lists the times of a page that are not written in the zone of the
// viewer, or do not say when they are at all.
const foreignTimes = `[...document.querySelectorAll("time")].filter(e => {
	const at = new Date(e.dateTime);
	if (isNaN(at)) return true;
	const day = (d) => new Intl.DateTimeFormat("en", {dateStyle: "short", timeZone: "Asia/Kathmandu"}).format(d);
	const short = e.hasAttribute("data-when");
	const clock = e.hasAttribute("data-clock") || short && day(at) === day(new Date());
	const style = clock ? {timeStyle: "medium"}
		: e.hasAttribute("data-exact") ? {dateStyle: "medium", timeStyle: "medium"}
		: short ? {month: "short", day: "numeric", hour: "2-digit", minute: "2-digit"}
		: {dateStyle: "medium", timeStyle: "short"};
	const here = new Intl.DateTimeFormat(undefined, {...style, timeZone: "Asia/Kathmandu"});
	return !e.hasAttribute("data-ago") && e.textContent !== here.format(at) || e.textContent.includes("UTC") || !e.title;
}).map(e => e.outerHTML)`

// sticksOut names the innermost elements that reach beyond the window.
const sticksOut = `[...document.querySelectorAll("main *")].filter(e => {
	const right = e.getBoundingClientRect().right;
	return right > document.documentElement.clientWidth + 1
		&& ![...e.children].some(c => c.getBoundingClientRect().right >= right)
		&& !e.closest(".table, .scroll, [popover]");
}).slice(0, 5).map(e => e.tagName + "." + e.className + " " + (e.textContent || "").trim().slice(0, 40))`
