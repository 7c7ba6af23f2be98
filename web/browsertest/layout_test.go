package browsertest_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/web/webtest"
)

// widths are those of a page at 400 % zoom on a screen of 1280, of a phone, and of windows
// around the widths at which the layout changes.
var widths = []int64{320, 390, 821, 1101, 1241}

// TestLayout_NoFieldOverlapsAnother looks at the forms of rules and overrides, where fields
// stand side by side.
func TestLayout_NoFieldOverlapsAnother(t *testing.T) {
	t.Parallel()
	s := serve(t, webtest.Full, nil)
	tab := s.tab(t, "editor")
	const overlaps = `(() => {
		const all = [...document.querySelectorAll("main input:not([type=hidden]), main select, main textarea, main label")]
			.filter((e) => e.checkVisibility() && !e.closest(".hidden") && e.getBoundingClientRect().width > 1);
		const out = [];
		for (let i = 0; i < all.length; i++) for (let j = i + 1; j < all.length; j++) {
			if (all[i].contains(all[j]) || all[j].contains(all[i])) continue;
			const a = all[i].getBoundingClientRect(), b = all[j].getBoundingClientRect();
			if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
				Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
				out.push([all[i], all[j]].map((e) => e.name || e.textContent.trim()).join(" and "));
		}
		for (const e of all) {
			const around = e.closest(".editor .stack");
			if (!around) continue;
			const inside = around.getBoundingClientRect().right - parseFloat(getComputedStyle(around).paddingRight);
			if (e.getBoundingClientRect().right > inside + 1)
				out.push((e.name || e.textContent.trim()) + " beyond its section");
		}
		return out.join(", ");
	})()`
	for _, path := range []string{"/console/rules/1/edit", "/console/rules/1/overrides"} {
		try(t, tab.Go(s.url+path))
		_ = value[bool](t, tab, `document.querySelectorAll("main details").forEach((d) => d.open = true); true`)
		for _, width := range widths {
			try(t, tab.Show(width, 800, false))
			if got := value[string](t, tab, overlaps); got != "" {
				t.Errorf("%s, %d pixels wide: %s", path, width, got)
			}
		}
	}
}

// On a phone, the times below a chart stand apart, also with dates.
func TestLayout_TimesBelowAChartStandApart(t *testing.T) {
	t.Parallel()
	s := serve(t, webtest.Full, nil)
	tab := s.tab(t, "editor")
	const tooClose = `(() => {
		const all = [...document.querySelectorAll(".axis-x text")].filter((e) => getComputedStyle(e).visibility !== "hidden")
			.map((e) => [e.textContent, e.getBoundingClientRect()]);
		return all.length < 2 ? "no times" : all.slice(1).filter(([_, r], i) => r.left < all[i][1].right + 8)
			.map(([text]) => text).join(", ");
	})()`
	for _, path := range []string{"/console/keys?key=user:acme-batch&rule=charges-per-user",
		"/console/traffic?range=24h"} {
		for _, width := range []int64{320, 390} {
			try(t, tab.Show(width, 800, false))
			try(t, tab.Go(s.url+path))
			if got := value[string](t, tab, tooClose); got != "" {
				t.Errorf("%s, %d pixels wide: too close to the time before: %s", path, width, got)
			}
		}
	}
}

// The name of a changed field stands in one line on a phone, also that of an algorithm.
func TestLayout_AChangedFieldIsNotBroken(t *testing.T) {
	t.Parallel()
	s := serve(t, webtest.Full, nil)
	tab := s.tab(t, "editor")
	try(t, tab.Show(390, 800, false))
	try(t, tab.Go(s.url+"/console/rules/7"))
	const lines = `(() => {
		const name = document.querySelector(".history .diff tbody th"), text = document.createRange();
		name.textContent = "algorithm";
		text.selectNodeContents(name);
		return text.getClientRects().length;
	})()`
	if got := value[int](t, tab, lines); got != 1 {
		t.Errorf("the name has %d lines", got)
	}
}

// TestLayout_NoPageScrollsSidewaysAt400Percent is WCAG's reflow: 320 CSS pixels.
func TestLayout_NoPageScrollsSidewaysAt400Percent(t *testing.T) {
	t.Parallel()
	s := serve(t, webtest.Full, func(w *webtest.World) { w.Node.ID = "sluice-7d9c5b6f44-x2k8q-2a61f0c39b7e4d58" })
	tab := s.tab(t, "admin")
	for _, path := range []string{"/console/settings", "/console", "/console/denials", "/console/rules/1",
		"/console/rules/1/edit", "/console/rules", "/console/fail-modes"} {
		try(t, tab.Show(320, 640, false))
		try(t, tab.Go(s.url+path))
		if wide := value[int](t, tab, `document.scrollingElement.scrollWidth`); wide > 320 {
			t.Errorf("%s: %d pixels wide", path, wide)
		}
		if narrow := value[string](t, tab, `[...document.querySelectorAll("main .settings tbody th")].filter((e) => e.offsetWidth < .7 * e.parentElement.clientWidth).map((e) => e.textContent.trim()).join(", ")`); narrow != "" {
			t.Errorf("%s: the heads of rows are narrow beside nothing: %s", path, narrow)
		}
		inner := value[string](t, tab, `[...document.querySelectorAll("main .table, main table")].filter((e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && getComputedStyle(e).overflowX !== "visible")
			.map((e) => e.className + " " + e.scrollWidth + " in " + e.clientWidth).join(", ")`)
		if inner != "" {
			t.Errorf("%s: a table scrolls: %s", path, inner)
		}
	}
}

// TestLayout_ADenialIsShortOnAPhone: a page of denials is a list, not a scroll of thousands of lines.
func TestLayout_ADenialIsShortOnAPhone(t *testing.T) {
	t.Parallel()
	s := serve(t, webtest.Full, nil)
	tab := s.tab(t, "viewer")
	for _, path := range []string{"/console", "/console/denials", "/console/keys?rule=charges-per-user&key=user:42"} {
		try(t, tab.Show(390, 780, false))
		try(t, tab.Go(s.url+path))
		if high := value[float64](t, tab, `Math.max(0, ...[...document.querySelectorAll(".denials tbody tr")]
			.map((e) => e.getBoundingClientRect().height))`); high == 0 || high > 136 {
			t.Errorf("%s: a denial is %v pixels high", path, high)
		}
		if out := value[string](t, tab, `[...document.querySelectorAll(".denials tbody :is(td, th) > *")].filter((e) => e.checkVisibility()).filter((e) => {
			const a = e.getBoundingClientRect(), b = e.closest("tr").getBoundingClientRect();
			return a.top < b.top - 1 || a.bottom > b.bottom + 1;
		}).map((e) => e.textContent).join(", ")`); out != "" {
			t.Errorf("%s: outside its row: %s", path, out)
		}
	}
}

// TestLayout_ARequestIsALine: a page of denials shows many at once. Repeats are folded, and a checkbox shows them where
// no script runs.
func TestLayout_ARequestIsALine(t *testing.T) {
	t.Parallel()
	s := serve(t, webtest.Full, nil)
	tab := s.tab(t, "viewer")
	try(t, tab.WithoutScripts())
	try(t, tab.Show(1440, 900, false))
	const heights = `Math.max(0, ...[...document.querySelectorAll(".denials tbody tr, .oneline tbody tr")]
		.map((e) => e.getBoundingClientRect().height))`
	for _, path := range []string{"/console", "/console/rules"} {
		try(t, tab.Go(s.url+path))
		if got := value[float64](t, tab, `Math.max(...[...document.querySelectorAll("td[data-label=Changed] time")].map((e) =>
			e.getBoundingClientRect().right - e.closest("td").getBoundingClientRect().right))`); got > 0 {
			t.Errorf("%s: the time of a change is cut by %v pixels", path, got)
		}
	}
	for _, path := range []string{"/console", "/console/denials", "/console/requests",
		"/console/keys?rule=charges-per-user&key=user:42"} {
		try(t, tab.Go(s.url+path))
		if high := value[float64](t, tab, heights); high < 20 || high > 38 {
			t.Errorf("%s: a line is %v pixels high", path, high)
		}
		if got := value[int](t, tab, `[...document.querySelectorAll(".denials tbody th")].filter((e) => e.checkVisibility() &&
			e.scrollWidth > e.clientWidth).length`); got > 0 {
			t.Errorf("%s: %d times are cut", path, got)
		}
	}
	// The longest answer keeps its time.
	if got := value[float64](t, tab, `(() => {
		const cell = document.querySelector('.denials td[data-label="Answer"]');
		cell.innerHTML = '<span class="badge bad">429, banned</span><span class="sub">retry in 14 min 57 s</span>';
		return cell.querySelector(".sub").getBoundingClientRect().right - cell.getBoundingClientRect().right;
	})()`); got > 0 {
		t.Errorf("the time of a banned client is cut by %v pixels", got)
	}
	const shown = `[...document.querySelectorAll(".denials tbody tr")].filter((e) => e.checkVisibility()).length`
	try(t, tab.Go(s.url+"/console/denials"))
	folded := value[int](t, tab, shown)
	all := value[int](t, tab, `document.querySelectorAll(".denials tbody tr").length`)
	if folded == 0 || folded >= all {
		t.Fatalf("%d of %d lines are shown", folded, all)
	}
	times := value[int](t, tab, `Number(document.querySelector(".fold").textContent.replace(/[^0-9]/g, ""))`)
	steps(t, tab, chromedp.Click(".fold"))
	if got := value[int](t, tab, shown); times < 2 || got != folded+times-1 {
		t.Errorf("after unfolding %d, %d of %d lines are shown, not %d", times, got, all, folded+times-1)
	}
	if high := value[float64](t, tab, heights); high > 38 {
		t.Errorf("unfolded, a line is %v pixels high", high)
	}
}

// TestLayout_NamesAreCutInTheMiddle: rules whose names differ only at their ends can be told apart.
func TestLayout_NamesAreCutInTheMiddle(t *testing.T) {
	t.Parallel()
	long := "a-rule-with-quite-a-long-name-for-the-checkout-of-"
	s := serve(t, webtest.Full, func(w *webtest.World) {
		w.Rules.List[0].Name, w.Rules.List[1].Name = long+"customers", long+"suppliers"
	})
	tab := s.tab(t, "admin")
	for _, width := range []int64{390, 1024, 1440, 1920} {
		try(t, tab.Show(width, 900, false))
		try(t, tab.Go(s.url+"/console/rules"))
		if got := value[string](t, tab, `[...document.querySelectorAll(".rules tbody th a .middle")].map((e) => {
			const cell = e.closest("th").getBoundingClientRect(), end = e.lastElementChild.getBoundingClientRect();
			const a = e.closest("a"), whole = e.textContent;
			return end.right > cell.right + 1 || end.width < 40 ? whole + " has no end"
				: e.firstElementChild.getBoundingClientRect().width < 40 ? whole + " has no beginning"
				: a.getAttribute("aria-label") !== whole || !e.closest("th").title.startsWith(whole)
				? whole + " is nowhere whole" : "";
		}).filter(Boolean).join(", ")`); got != "" {
			t.Errorf("%d wide: %s", width, got)
		}
		if n := value[int](t, tab, `document.querySelectorAll(".rules .middle").length`); n < 2 {
			t.Errorf("%d wide: %d names are cut", width, n)
		}
	}
}

// TestLayout_AddressesOfClientsAreWhole: on a phone too, the addresses next to the limit can be told apart.
func TestLayout_AddressesOfClientsAreWhole(t *testing.T) {
	t.Parallel()
	s := serve(t, webtest.Full, nil)
	tab := s.tab(t, "editor")
	try(t, tab.Show(390, 900, false))
	try(t, tab.Go(s.url+"/console/rules/1/edit"))
	if got := value[float64](t, tab, `(() => {
		const key = document.querySelector(".clients code");
		key.textContent = "ip:255.255.255.255";
		return key.scrollWidth - key.clientWidth;
	})()`); got > 0 {
		t.Errorf("the address is cut by %v pixels", got)
	}
}

// TestLayout_ButtonsOfARowStandApart, in one line on a wide screen.
func TestLayout_ButtonsOfARowStandApart(t *testing.T) {
	t.Parallel()
	s := serve(t, webtest.Full, nil)
	tab := s.tab(t, "admin")
	try(t, tab.Show(1440, 900, false))
	for _, path := range []string{"/console/tokens", "/console/alerts"} {
		try(t, tab.Go(s.url+path))
		if got := value[string](t, tab, `(() => {
			const pairs = [...document.querySelectorAll("main td > .button + .button")];
			return !pairs.length ? "no row has two buttons" : pairs.filter((b) => {
				const a = b.previousElementSibling.getBoundingClientRect(), c = b.getBoundingClientRect();
				return c.left < a.right + 2 || c.top !== a.top;
			}).map((b) => b.ariaLabel).join(", ");
		})()`); got != "" {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// TestLayout_ARuleIsALine: a page shows many rules at once, and on a phone each can be selected by a finger.
func TestLayout_ARuleIsALine(t *testing.T) {
	t.Parallel()
	s := serve(t, webtest.Full, func(w *webtest.World) {
		r := &w.Rules.List[8]
		r.Description = strings.Repeat("a long description ", 20)
		r.Owner = new("an owner with a long name")
	})
	tab := s.tab(t, "admin")
	for _, path := range []string{"/console/rules", "/console/rules?group=owner", "/console/rules?sort=denied"} {
		for _, width := range []int64{1024, 1280, 1440, 1920} {
			try(t, tab.Show(width, 900, false))
			try(t, tab.Go(s.url+path))
			if got := value[float64](t, tab,
				`Math.max(...[...document.querySelectorAll(".rules tbody tr")].map((e) => e.getBoundingClientRect().height))`); got > 44 {
				t.Errorf("%s, %d wide: a row is %v high", path, width, got)
			}
			if wide := value[int](t, tab, `document.scrollingElement.scrollWidth`); wide > int(width) {
				t.Errorf("%s: %d pixels wide on %d", path, wide, width)
			}
			if cut := value[string](t, tab, `[...document.querySelectorAll(".rules .badge, .rules svg")].filter((e) => {
				const a = e.getBoundingClientRect(), b = e.closest("td, th").getBoundingClientRect();
				return a.right > b.right + 1 || a.left < b.left - 1;
			}).map((e) => e.textContent || e.outerHTML.slice(0, 40)).join(", ")`); cut != "" {
				t.Errorf("%s, %d wide: cut: %s", path, width, cut)
			}
		}
	}
	try(t, tab.Show(1280, 400, false))
	try(t, tab.Go(s.url+"/console/rules"))
	if top := value[float64](t, tab, `scrollTo({ top: 1e6, behavior: "instant" }),
		document.querySelector(".bulk").getBoundingClientRect().top`); top < 0 || top > 2 {
		t.Errorf("the bar of actions is at %v when the list is scrolled", top)
	}
	try(t, tab.Show(390, 780, false))
	try(t, tab.Go(s.url+"/console/rules"))
	if small := value[string](t, tab, smallTargets); small != "" {
		t.Errorf("on a phone: %s", small)
	}
	if wide := value[int](t, tab, `document.scrollingElement.scrollWidth`); wide > 390 {
		t.Errorf("on a phone: %d pixels wide", wide)
	}
}

// smallTargets are the controls that are less than 24 pixels high or wide, except links within text. A link that is
// alone in a cell or at the start of a row is not within text.
const smallTargets = `[...document.querySelectorAll("main :is(a, button, input:not([type=hidden]), select, summary)")]
	.filter((e) => e.checkVisibility() && !e.closest(".hidden"))
	.filter((e) => !e.closest("thead"))
	.filter((e) => e.matches("td > a:only-child, tbody th > a") ||
		!(e.matches("a") && getComputedStyle(e).display === "inline"))
	.map((e) => [e, e.matches("[type=checkbox], [type=radio]") && e.closest("label") || e])
	.map(([e, on]) => [e, on.getBoundingClientRect()])
	.filter(([, r]) => r.width && (r.width < 23.9 || r.height < 23.9))
	.map(([e, r]) => [e.getAttribute("aria-label") || e.name || e.textContent.trim(), r.width | 0, r.height | 0].join(" "))
	.join(", ")`
