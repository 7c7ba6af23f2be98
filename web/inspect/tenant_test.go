package inspect_test

import (
	"net/http"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

// A tenant has a page whether or not a rule counts by it.
func TestTenant_ShowsWhatIsKnown(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	const path = "/console/tenants?tenant="
	page := b.Get(path + "acme")
	if page.Code != http.StatusOK || !page.Has("Limits of this tenant", `key=attr%3Atenant%3Aacme`, "Rules that decided",
		"/console/requests?tenant=acme", "Decisions in 24 hours, by rule", "What happened: ") {
		t.Errorf("%d %s", page.Code, page.Body)
	}
	page = b.Get(path + "%3Cscript%3E%22nobody")
	if page.Code != http.StatusOK || !page.Has("not known", "None among the sampled requests") ||
		strings.Contains(page.Body, "<script>\"") {
		t.Errorf("a tenant without requests: %d %s", page.Code, page.Body)
	}
	// Another attribute of a sampled request has this value.
	if page = b.Get(path + "eu-central-1"); page.Code != http.StatusOK || !page.Has("None among the sampled requests") {
		t.Errorf("a region is taken for a tenant: %d %s", page.Code, page.Body)
	}
	page = b.Get("/console/requests?tenant=eu-central-1")
	if page.Code != http.StatusOK || !page.Has("No stored request matches these filters") {
		t.Errorf("requests of a region are those of a tenant: %d %s", page.Code, page.Body)
	}
	for _, none := range []string{"", strings.Repeat("x", 1025)} {
		if page := b.Get(path + none); page.Code != http.StatusSeeOther {
			t.Errorf("a name of %d bytes: %d", len(none), page.Code)
		}
	}
	w.Stats.Err = rules.ErrUnavailable
	if page = b.Get(path + "acme"); page.Code != http.StatusOK || !page.Has("The figures could not be read", "not known") {
		t.Errorf("without figures: %d %s", page.Code, page.Body)
	}
}
