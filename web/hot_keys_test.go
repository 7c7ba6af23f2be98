package web_test

import (
	"net/http"
	"testing"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/web/webtest"
)

// TestHotKeys_OfThisNodeAloneAreSaidToBe, and a node that cannot be asked is said to have
// no number of anything.
func TestHotKeys_OfThisNodeAloneAreSaidToBe(t *testing.T) {
	w := world(t, webtest.Full)
	w.Fleet.Change(func(l *history.Live) {
		l.Own, l.Err, l.At = true, http.ErrHandlerTimeout, webtest.Now
		other := l.Nodes[0]
		other.ID, other.Address, other.Unknown, other.HotKeys = "b", "10.0.0.9:8080", true, 7651
		other.Breakers = []history.Breaker{{Server: "10.0.0.7:6379", State: "closed", Opened: 9876}}
		l.Nodes = append(l.Nodes, other)
	})
	w.Node.Store = "redis"
	b := w.As(access.RoleViewer)
	if page := b.Get("/console/hot-keys"); !page.Has("this page shows only the decisions of this node", "unknown since") ||
		page.Has(" .</span>") {
		t.Error("hot keys of one node are shown as those of all")
	}
	for _, path := range []string{"/console/nodes", "/console/fail-modes"} {
		if page := b.Get(path); !page.Has("10.0.0.9:8080", "unknown since") || page.Has("7,651") || page.Has("9,876") {
			t.Errorf("%s: %d, tells figures of a node that cannot be asked, or nothing of it: %v", path, page.Code,
				page.Has("10.0.0.9:8080"))
		}
	}
}

func TestHotKeys_AreTheFleetsWithTheirRulesAndNodes(t *testing.T) {
	w := world(t, webtest.Full)
	webtest.HeatUp(w)
	b := w.As(access.RoleViewer)
	page := b.Get("/console/hot-keys")
	if page.Code != http.StatusOK || !page.Has("user:user-40", "hot, exact", "4,200", "charges-per-user",
		"10.0.0.5:8080: 2,800/s", "10.0.0.6:8080: 1,400/s",
		`href="/console/keys?key=user%3Auser-40&amp;rule=charges-per-user"`, "2 keys are hot") {
		t.Errorf("got %d\n%s", page.Code, page.Body)
	}
	if page := b.Get("/console"); !page.Has("2 keys are hot", "user:user-41", `href="/console/hot-keys"`) {
		t.Error("the overview does not tell")
	}
	if page := b.Get("/console/rules/1"); !page.Has("Checks per second on all nodes.", "user:user-40") {
		t.Error("the page of the rule does not tell")
	}
	w.Fleet.Change(func(l *history.Live) { l.Err = rules.ErrUnavailable })
	if page := b.Get("/console/hot-keys"); page.Code != http.StatusOK ||
		!page.Has("live data unavailable", "user:user-40") {
		t.Errorf("without the board: %d", page.Code)
	}
	w.Fleet.Change(func(l *history.Live) {
		l.Hot = nil
		for i := range l.Nodes {
			l.Nodes[i].HotKeys = 0
		}
	})
	for path, want := range map[string]string{"/console/hot-keys": "Hot keys are unknown",
		"/console/rules/1": "Unknown while Redis is unreachable", "/console": "unknown while Redis is unreachable"} {
		if page := b.Get(path); !page.Has(want) || page.HasAny("No keys yet", "No hot keys", ">0 keys<") {
			t.Errorf("%s without Redis does not say that hot keys are unknown", path)
		}
	}
	w.Fleet.Change(func(l *history.Live) { l.Err, l.Hot = nil, nil })
	if page := b.Get("/console/hot-keys"); !page.Has("No keys yet") || page.HasAny("is hot", "are hot") {
		t.Error("no traffic is not told")
	}
}
