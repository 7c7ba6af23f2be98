package inspect_test

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
	"sluice/web/webtest"
)

const key42 = "/console/keys?rule=search-per-user&key=user%3A42"

func TestKey_ShowsEveryRuleThatCountsIt(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	page := w.As(access.RoleViewer).Get(key42)
	if page.Code != http.StatusOK || !page.Has("charges-per-user", "tighter-charges", "uploads-in-bytes", ">blocked<",
		"20 (limit 60, burst 20)", "1,183", "Decisions in 24 known hours of the last 24") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	if page.HasAny("exports-at-a-time", "Raise to", `action="/console/keys/reset"`) {
		t.Error("a rule of another scope counts the key, or a viewer may act")
	}
}

// A home region that does not answer leaves only the rules unknown whose keys are at home there.
func TestKey_ShowsOtherRulesWhileAHomeRegionIsLost(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	for _, lost := range []string{"search-per-user", "charges-per-user"} {
		w.Counters.HomeDown = lost
		page := b.Get(key42)
		if !page.Has("60 of 60", "1,000,000,000 of 1,000,000,000") ||
			page.Has("20 (limit 60, burst 20)") == (lost == "search-per-user") {
			t.Errorf("the home of %s is lost, and others are unknown: %s", lost, page.Body)
		}
	}
}

// A key that no sketch has is unknown, not idle.
func TestKey_SaysWhatIsNotKnown(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	const idle = "/console/keys?rule=search-per-user&key=user%3Anobody"
	page := b.Get(idle)
	if !page.Has("Nothing is known: in these 24 hours", "not known", "none has it among its busiest keys") ||
		strings.Contains(page.Body, `data-label="Denied, 24 h" class="number">0<`) {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	w.Stats.Change(func(f *webtest.Stats) { f.Err = rules.ErrUnavailable })
	if page := b.Get(key42); page.Code != http.StatusOK || !page.Has("The figures could not be read.", "not known") ||
		page.Has("Nothing is known") {
		t.Errorf("without figures: %d", page.Code)
	}
	w.Stats.Change(func(f *webtest.Stats) { f.Err, f.Partial = nil, rules.ErrUnavailable })
	if page := b.Get(key42); !page.Has("Some figures are missing") {
		t.Error("what is missing is not told")
	}
	w.Fleet.SetErr(nil)
	w.Fleet.Figures.Own = true
	if page := b.Get(key42); page.Has("none has it among") {
		t.Error("what other nodes have is not known, and is shown as none")
	}
}

func TestKey_NamesTheNodesThatHoldPartsOfIt(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	c := w.Sets.Load().Named("search-per-user")
	w.Fleet.Figures.Hot = []history.HotLive{{
		HotKey: history.HotKey{Key: "user:42", Bucket: "user:42", RuleID: c.Rule.ID},
		Nodes:  []history.HotNode{{Address: "10.0.0.7:8080", Heat: limiter.Heat{Rate: 410, State: limiter.HotLeased}}},
	}}
	if page := w.As(access.RoleViewer).Get(key42); !page.Has("10.0.0.7:8080: 410/s") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
}

func TestKey_IsFoundWithoutItsRule(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	page := b.Get("/console/keys?key=user%3A42")
	if to := page.Header.Get("Location"); page.Code != http.StatusSeeOther ||
		!strings.HasSuffix(to, "key=user%3A42&rule=charges-per-user") {
		t.Errorf("%d %s", page.Code, to)
	}
	page = b.Post("/console/keys", url.Values{"rule": {""}, "key": {"apikey:sk_live_secret"}})
	to := page.Header.Get("Location")
	if page.Code != http.StatusSeeOther || strings.Contains(to, "sk_live") || !strings.Contains(to, "sha256") {
		t.Fatalf("%d %s", page.Code, to)
	}
	if page := b.Get(to); !page.Has(`id="key-link"`) || page.Has("sk_live") {
		t.Errorf("the link to copy: %d", page.Code)
	}
	for _, key := range []string{"42", "nothing:42", "global"} {
		if page := b.Post("/console/keys", url.Values{"rule": {""}, "key": {key}}); page.Code != 422 ||
			!page.Has("no active rule counts such a key") {
			t.Errorf("%s: %d", key, page.Code)
		}
	}
}

func TestKey_IsRaisedForAnHour(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	if page := b.Get(key43); !page.Has("Raise to 200 for an hour", `name="limit" value="200"`) {
		t.Fatalf("%d\n%s", page.Code, page.Body)
	}
	page := b.Post("/console/keys/override", url.Values{"rule": form43["rule"], "key": form43["key"], "does": {"limit"},
		"limit": {"200"}, "hours": {"1"}, "reason": {"Raised for an hour."}})
	if page.Code != http.StatusSeeOther {
		t.Fatalf("%d", page.Code)
	}
	o := w.Overrides.List[len(w.Overrides.List)-1]
	if o.Limit == nil || *o.Limit != 200 || o.ExpiresAt == nil || !o.ExpiresAt.Equal(webtest.Now.Add(time.Hour)) {
		t.Errorf("%+v", o)
	}
	if page := b.Get(key43); !page.Has("Raised for an hour.", "limit 200") || page.HasAny("Raise to", ">Block<") {
		t.Error("what has an override can be raised again")
	}
}

func TestExplain_HasTheActionsAndLeadsBackToTheDenial(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	const path = "/console/explain?denial=2"
	d, _, err := w.Fleet.Request(t.Context(), "2")
	if err != nil {
		t.Fatal(err)
	}
	page := w.As(access.RoleEditor).Get(path)
	if !page.Has("Back to the denial", "#request-2", `action="/console/keys/override"`, `action="/console/keys/reset"`) {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	list := w.As(access.RoleViewer).Get("/console/denials?before=" + strconv.FormatInt(d.At+1, 10))
	if !list.Has(`id="request-2"`) {
		t.Error("the way back does not lead to the denial")
	}
	if page := w.As(access.RoleViewer).Get(path); page.Has(`action="/console/keys/override"`) {
		t.Error("a viewer may act")
	}
}

// A part of the row is an hour. One of which it is known that the key had no request is 0, not unknown.
func TestKey_HoursAreThoseInWhichTheKeyWasActive(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	line := slices.Repeat([]int64{history.LineUnknown}, 24)
	line[0], line[4], line[7] = 7, 9, 0
	w.Stats.Change(func(f *webtest.Stats) {
		f.Keys = []history.Row{{Key: "user:99", Allowed: 16, Error: 3, Line: line}}
	})
	page := w.As(access.RoleViewer).Get("/console/keys?rule=search-per-user&key=user%3A99")
	if !page.Has("Decisions in 3 known hours of the last 24", "search-per-user 16", "16 ± 3",
		`data-label="search-per-user" data-rate="under 0.1/s">7<`, `data-label="search-per-user" data-rate="0/s">0<`,
		`data-label="search-per-user" data-rate="">–<`, "in the hour from ") {
		t.Errorf("%s", page.Body)
	}
}
