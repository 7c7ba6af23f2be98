package web_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/internal/history/incident"
	"sluice/rules"
	"sluice/web/webtest"
)

func TestRegions_AreShownWithWhatIsWrong(t *testing.T) {
	w := world(t, webtest.Full)
	page := w.As(access.RoleViewer).Get("/console/regions")
	if page.Code != http.StatusOK || !page.Has("This is eu", "284 ms", "99% within 412 ms", "has been cut off since",
		"Checks go on", "cut off for 1 min 34 s", "Check that asia runs", "Not taken since", "connection refused",
		"2.6 s behind", "apart",
		"version 41", "behind", "3 ms ahead", "80,992 buckets sent", "1.8 MB", "4,100 decided, 210 failed",
		"Fail modes decide since", "3.1%", "above", "the real excess is smaller",
		"No region may spend 4 that wait here", "Recent demand is what the busiest keys ask",
		`<caption class="hidden">Other regions</caption>`, `<caption class="hidden">Shares of signups-in-all</caption>`,
		`<caption class="hidden">Rules that span regions`, `<a href="/console/rules/1">charges-per-user</a>`) {
		t.Errorf("got %d\n%s", page.Code, page.Body)
	}
	alone := world(t, webtest.Empty)
	if page := alone.As(access.RoleViewer).Get("/console/regions"); page.Code != http.StatusOK ||
		!page.Has("This server has no regions") {
		t.Errorf("without regions: %d", page.Code)
	}
}

// Figures and nodes of the overview are those of this region, and it says so.
func TestRegions_TheOverviewIsOfOne(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleViewer)
	if !b.Get("/console").Has("Decisions across all nodes, by rule.") ||
		!b.Get("/console/nodes").Has("Every node reports") {
		t.Error("without regions all nodes are all nodes")
	}
	w.Node.Region = "eu"
	if !b.Get("/console").Has("Decisions across all nodes of eu, by rule.") ||
		!b.Get("/console/nodes").Has("Every node of eu reports") {
		t.Error("the pages do not name the region")
	}
	if groups, _ := navigation(t, b.Get("/console")); !slices.Contains(groups["Run"], "Regions") {
		t.Errorf("the navigation lacks the regions: %q", groups["Run"])
	}
}

// The page follows what happens without a reload.
func TestRegions_AreLive(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleViewer)
	if !b.Get("/console/regions").Has(`hx-sse:connect="/console/events?of=regions"`) {
		t.Error("the page of regions has no stream")
	}
	if part := b.Get("/console/events?of=regions&once=1"); !part.Has(`hx-target="#live-regions"`, "connection refused") {
		t.Errorf("a message of the stream: %s", part.Body)
	}
}

// Every page but that of regions says that a region is cut off, and leads there.
func TestRegions_ACutIsOnEveryPage(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleViewer)
	const says = "Cut off from this region: asia."
	if b.Get("/console/rules").Has(says) {
		t.Error("nothing is cut off, and the page says so")
	}
	w.Node.CutOff = []string{"asia"}
	if page := b.Get("/console/rules"); !page.Has(says, `<a href="/console/regions">Regions</a>`) {
		t.Errorf("the page of rules: %s", page.Body)
	}
	if page := b.Get("/console/regions"); strings.Contains(page.Body, says) {
		t.Error("the page of regions says it twice")
	}
	w.Incidents.Change(func(f *webtest.Incidents) {
		f.List = append(f.List, incident.Incident{ID: "n1-9", Kind: incident.Regions, Begin: webtest.Now, Server: "asia",
			Updated: webtest.Now, Node: "10.0.0.1:8080", NodeID: "n1"})
	})
	if page := b.Get("/console"); !page.Has(says) || page.Has("Incident running") {
		t.Error("the overview says it twice")
	}
	w.Node.CutOff = nil // of the node that has the incident, another one is cut off
	if page := b.Get("/console"); !page.Has("Incident running on 10.0.0.1:8080: Region cut off") {
		t.Error("the overview does not say that a node of another region is cut off")
	}
}

// The page of a rule says how far its limit reaches, and the editor what each reach means.
func TestRegions_ARuleSaysHowFarItReaches(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleEditor)
	if b.Get("/console/rules/1").Has("for all regions") {
		t.Error("a rule of each region by itself says that it is of all regions")
	}
	for span, says := range map[string]string{rules.SpanGlobal: "for all regions together",
		rules.SpanShares: "each with its part", rules.SpanGlobalExact: "each key decided in one of them"} {
		w.Rules.List[0].Span = span
		if page := b.Get("/console/rules/1"); !page.Has(says) {
			t.Errorf("%s: the page of the rule: %s", span, page.Body)
		}
	}
	if page := b.Get("/console/rules/new"); !page.Has("a little too much can pass", `class="trio of-global"`) {
		t.Error("the editor does not say what a reach means")
	}
}
