package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"sluice/internal/access"
	"sluice/web"
	"sluice/web/webtest"
)

func TestTour_IsWhereItsStopsAre(t *testing.T) {
	w := world(t, webtest.Full)
	viewer := w.As(access.RoleViewer)
	if page := viewer.Get("/console?tour=1"); page.Has("Stop 1") {
		t.Error("a server that is no demo has a tour")
	}
	if page := viewer.Post("/console/tour", nil); page.Code != http.StatusNotFound {
		t.Errorf("a server that is no demo closes a tour: %d", page.Code)
	}
	webtest.Tour(w)
	for path, want := range map[string]string{
		"/console": "Stop 1 of 2", "/console?tour=1": "Stop 1 of 2", "/console/rules/1?range=24h&tour=2": "Stop 2 of 2",
		"/console?tour=3": "", "/console?tour=x": "", "/console/rules/1": "",
	} {
		page := viewer.Get(path)
		if has := page.Has(`class="tour"`); has != (want != "") || !page.Has(want) {
			t.Errorf("%s has a bar: %v, want %q", path, has, want)
		}
	}
	if page := viewer.Get("/console"); !page.Has(`href="/console/rules/1?range=24h&amp;tour=2"`) {
		t.Error("the first stop does not lead to the second one")
	}
	other := w.As(access.RoleViewer)
	page := viewer.Post("/console/tour", url.Values{"back": {"/console/rules"}})
	if page.Code != http.StatusSeeOther || page.Header.Get("Location") != "/console/rules" {
		t.Errorf("closing the tour: %d to %s", page.Code, page.Header.Get("Location"))
	}
	if viewer.Get("/console?tour=1").Has("Stop 1") || !other.Get("/console").Has("Stop 1") {
		t.Error("the tour is not closed in one browser alone")
	}
	w.ChangeNode(func(n *web.Node) { n.ID = "another" })
	if !viewer.Get("/console").Has("Stop 1") {
		t.Error("the next demo has no tour in this browser")
	}
}
