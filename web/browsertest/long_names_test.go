package browsertest_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice/web/webtest"
)

// scrolling names the tables of a page that are wider than their place.
const scrolling = `[...document.querySelectorAll("main .table")]
	.filter((e) => e.scrollWidth > e.clientWidth + 1)
	.map((e) => e.querySelector("table").className + " " + e.scrollWidth + " in " + e.clientWidth).join(", ")`

// TestLayout_LongNamesStayInTheWindow: names, routes and texts without a place to break do not widen a page. 640 is a
// window of 1280 at 200 % zoom.
func TestLayout_LongNamesStayInTheWindow(t *testing.T) {
	t.Parallel()
	var id int64
	s := serve(t, webtest.Full, func(w *webtest.World) {
		r := &w.Rules.List[8]
		id = r.ID
		r.Name = strings.Repeat("n", 63)
		r.Description = strings.Repeat("description", 20)
		r.Owner = new(strings.Repeat("owner", 12))
		r.Route = new("/" + strings.Repeat("a-long-segment/", 8) + "{id}")
	})
	tab := s.tab(t, "admin")
	page := fmt.Sprintf("/console/rules/%d", id)
	for _, path := range []string{page, page + "/edit", page + "/overrides", page + "/overrides/new", "/console/rules",
		"/console/rules?group=owner", "/console/fail-modes", "/console/search", "/console"} {
		for _, width := range []int64{320, 640, 1280} {
			try(t, tab.Show(width, 800, false))
			try(t, tab.Go(s.url+path))
			if status, err := tab.Status(); err != nil || status != 200 {
				t.Errorf("%s: %d (%v)", path, status, err)
			}
			if wide, err := tab.Wide(); err != nil || wide > 0 {
				t.Errorf("%s, %d wide: %d pixels too wide (%v)", path, width, wide, err)
			}
			if tables := value[string](t, tab, scrolling); tables != "" {
				t.Errorf("%s, %d wide: a table scrolls: %s", path, width, tables)
			}
		}
	}
}
