package web_test

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"sluice/internal/access"
	"sluice/web/webtest"
)

// navigation returns the entries of each group of the navigation of a page, and the current one.
func navigation(t *testing.T, page webtest.Page) (groups map[string][]string, current string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page.Body))
	if err != nil {
		t.Fatal(err)
	}
	groups = map[string][]string{}
	named := map[string]string{}
	for n := range doc.Descendants() {
		switch {
		case n.Data == "h2" && strings.HasPrefix(attr(n, "id", ""), "nav-"):
			named[attr(n, "id", "")] = strings.TrimSpace(textOf(n))
		case n.Data == "ul" && strings.HasPrefix(attr(n, "aria-labelledby", ""), "nav-"):
			label := named[attr(n, "aria-labelledby", "")]
			for a := range n.Descendants() {
				if a.Type == html.ElementNode && a.Data == "a" {
					groups[label] = append(groups[label], strings.TrimSpace(textOf(a)))
				}
				if attr(a, "aria-current", "") == "page" {
					current = strings.TrimSpace(textOf(a))
				}
			}
		}
	}
	return groups, current
}

// TestNavigation_HasFourGroups: the list of each group has the heading of the group as its name.
func TestNavigation_HasFourGroups(t *testing.T) {
	w := world(t, webtest.Full)
	got, current := navigation(t, w.As(access.RoleEditor).Get("/console"))
	for label, want := range map[string][]string{
		"See":    {"Overview", "Traffic", "Requests", "Alerts", "Incidents", "Hot keys"},
		"Change": {"Rules", "Overrides", "Pools", "Profiles", "Import & export"},
		"Try":    {"Explain", "Replay"},
	} {
		if !slices.Equal(got[label], want) {
			t.Errorf("%s: %q", label, got[label])
		}
	}
	if run := got["Run"]; len(got) != 4 || !slices.Contains(run, "Nodes") || slices.Contains(run, "Deferred") {
		t.Errorf("the groups are %q", got)
	}
	if current != "Overview" {
		t.Errorf("the current page is %q", current)
	}
	if got, _ := navigation(t, w.As(access.RoleViewer).Get("/console")); slices.Contains(got["Try"], "Replay") {
		t.Error("a viewer is led to the replays of editors")
	}
}

// TestNavigation_LeavesOutWhatIsUnused: pages with nothing to show are still found, by a search and by their address.
func TestNavigation_LeavesOutWhatIsUnused(t *testing.T) {
	b := world(t, webtest.Empty).As(access.RoleEditor)
	unused := map[string]string{"Pools": "/console/pools", "Overrides": "/console/overrides",
		"Deferred": "/console/deferred"}
	got, _ := navigation(t, b.Get("/console"))
	all := slices.Concat(got["See"], got["Change"], got["Try"], got["Run"])
	search := b.Get("/console/search")
	for label, path := range unused {
		if slices.Contains(all, label) {
			t.Errorf("%s is shown", label)
		}
		if !search.Has(`href="` + path + `"`) {
			t.Errorf("the search does not lead to %s", label)
		}
		if _, current := navigation(t, b.Get(path)); current != label {
			t.Errorf("at %s the current page is %q", path, current)
		}
	}
}

// TestOverrides_AreListedOverAllRules: the page of all overrides names the rule of each.
func TestOverrides_AreListedOverAllRules(t *testing.T) {
	b := world(t, webtest.Full).As(access.RoleViewer)
	if page := b.Get("/console/overrides"); !page.Has("user:acme-*", "user:42",
		`<a href="/console/rules/1/overrides">charges-per-user</a>`) || page.Has("/overrides/2/edit") {
		t.Error("the overrides of all rules are not listed")
	}
	if page := b.Get("/console/overrides?q=8123"); !page.Has("user:42") || page.Has("user:acme-*") {
		t.Error("the overrides are not searched")
	}
}
