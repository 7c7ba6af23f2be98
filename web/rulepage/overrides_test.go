package rulepage_test

import (
	"net/http"
	"net/url"
	"testing"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/rules"
	"sluice/web/webtest"
)

func TestOverrides_AreListedAddedEditedAndDeleted(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	if page := b.Get("/console/rules/1/overrides?q=acme"); !page.Has("user:acme-*", "2,000", `popovertarget="delete-1"`,
		"Delete the override for user:acme-*?") || page.Has("user:monitoring") {
		t.Errorf("the search gives %d\n%s", page.Code, page.Body)
	}
	page := b.Post("/console/rules/1/overrides",
		url.Values{"key": {"user:77"}, "kind": {"limit"}, "limit": {"500"}, "reason": {"contract"},
			"expires_at": {"2027-01-31T18:00"}})
	if page.Code != http.StatusSeeOther || len(w.Overrides.List) != 4 || *w.Overrides.List[3].Limit != 500 ||
		w.Overrides.List[3].ExpiresAt.Hour() != 18 {
		t.Fatalf("adding gave %d\n%s", page.Code, page.Body)
	}
	if page := b.Get("/console/rules/1/overrides/4/edit"); !page.Has(`value="500"`, `value="2027-01-31T18:00"`,
		"contract") {
		t.Errorf("the form of it: %d", page.Code)
	}
	page = b.Post("/console/rules/1/overrides/4", url.Values{"key": {"user:77"}, "kind": {"blocked"}, "version": {"1"}})
	if page.Code != http.StatusSeeOther || !w.Overrides.List[3].Blocked || w.Overrides.List[3].Limit != nil {
		t.Fatalf("editing gave %d\n%s", page.Code, page.Body)
	}
	page = b.Post("/console/rules/1/overrides/4",
		url.Values{"key": {"user:77"}, "kind": {"unlimited"}, "reason": {"kept"}, "version": {"1"}})
	if page.Code != http.StatusConflict ||
		!page.Has("Someone else changed this override in the meantime", "blocked", "kept") || w.Overrides.List[3].Unlimited {
		t.Errorf("a stale edit gave %d\n%s", page.Code, page.Body)
	}
	if page := b.Post("/console/rules/1/overrides/4/delete",
		url.Values{"version": {"2"}}); page.Code != http.StatusSeeOther || len(w.Overrides.List) != 3 {
		t.Errorf("deleting gave %d", page.Code)
	}
	if w.Changes != 3 {
		t.Errorf("%d changes were told of 3", w.Changes)
	}
}

func TestOverrides_NameThePeriodOfACalendar(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	r := &w.Rules.List[0]
	r.Algorithm, r.WindowMS, r.Calendar = "fixed_window", 0, &rules.Calendar{Every: rules.EveryMonth}
	if page := w.As(access.RoleEditor).Get("/console/rules/1/overrides/new"); !page.Has("Requests per calendar month") {
		t.Errorf("got %d\n%s", page.Code, page.Body)
	}
}

func TestOverrides_HaveCalendarsOfTheirOwn(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	r := &w.Rules.List[0]
	b := w.As(access.RoleEditor)
	if page := b.Get("/console/rules/1/overrides/new"); page.Has("calendar.anchor_day") {
		t.Error("a rule without a calendar has inputs for one")
	}
	r.Algorithm, r.WindowMS, r.Burst, r.Calendar = "fixed_window", 0, nil, &rules.Calendar{Every: rules.EveryMonth}
	r.Tiers, r.Schedule = nil, nil
	r.Normalize()
	page := b.Post("/console/rules/1/overrides", url.Values{"key": {"user:77"}, "kind": {"calendar"},
		"calendar.anchor_day": {"15"}, "calendar.zone": {"Europe/Berlin"}})
	if page.Code != http.StatusSeeOther || len(w.Overrides.List) != 4 || w.Overrides.List[3].Limit != nil ||
		*w.Overrides.List[3].Calendar != (rules.OverrideCalendar{Zone: "Europe/Berlin", AnchorDay: 15}) {
		t.Fatalf("adding gave %d\n%s", page.Code, page.Body)
	}
	if page := b.Get("/console/rules/1/overrides"); !page.Has("calendar zone=Europe/Berlin anchor_day=15") {
		t.Errorf("the list: %d\n%s", page.Code, page.Body)
	}
	if page := b.Get("/console/rules/1/overrides/4/edit"); !page.Has(`value="15"`, `value="Europe/Berlin"`,
		`value="calendar" selected`) {
		t.Errorf("the form: %d\n%s", page.Code, page.Body)
	}
	for name, c := range map[string]struct {
		form url.Values
		want string
	}{
		"a bad day":  {url.Values{"kind": {"calendar"}, "calendar.anchor_day": {"32"}}, "must be between 1 and 31"},
		"zero":       {url.Values{"kind": {"calendar"}, "calendar.anchor_day": {"0"}}, "must not be 0"},
		"nothing":    {url.Values{"kind": {"calendar"}}, "or a calendar alone"},
		"of blocked": {url.Values{"kind": {"blocked"}, "calendar.at": {"05:30"}}, "does not apply to a key that is"},
	} {
		c.form.Set("key", "user:78")
		page := b.Post("/console/rules/1/overrides", c.form)
		if page.Code != http.StatusUnprocessableEntity || !page.Has(c.want) {
			t.Errorf("%s: %d\n%s", name, page.Code, page.Body)
		}
	}
}

func TestOverrides_KeepWhatWasTyped(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	for name, c := range map[string]struct {
		form url.Values
		code int
		want string
	}{
		"no key": {url.Values{"kind": {"blocked"}, "reason": {"<b>mine</b>"}}, http.StatusUnprocessableEntity,
			"f-key-hint"},
		"no number": {url.Values{"key": {"user:9"}, "limit": {"many"}, "reason": {"<b>mine</b>"}},
			http.StatusUnprocessableEntity, "must be a whole number"},
		"other fact": {url.Values{"key": {"ip:203.0.113.7"}, "limit": {"5"}, "burst": {"9"}, "reason": {"<b>mine</b>"}},
			http.StatusUnprocessableEntity, "class=\"error\""},
		"too much": {url.Values{"key": {"user:9"}, "kind": {"blocked"}, "limit": {"5"}, "reason": {"<b>mine</b>"}},
			http.StatusUnprocessableEntity, "applies only to a custom limit"},
		"a burst": {url.Values{"key": {"user:9"}, "kind": {"unlimited"}, "burst": {"5"}, "reason": {"<b>mine</b>"}},
			http.StatusUnprocessableEntity, "applies only to a custom limit"},
		"taken": {url.Values{"key": {"user:42"}, "kind": {"blocked"}, "reason": {"<b>mine</b>"}}, http.StatusConflict,
			"already has an override"},
	} {
		page := b.Post("/console/rules/1/overrides", c.form)
		if page.Code != c.code || !page.Has("&lt;b&gt;mine&lt;/b&gt;") || page.Has("<b>mine") {
			t.Errorf("%s: %d\n%s", name, page.Code, page.Body)
		}
		if !page.Has(c.want) {
			t.Errorf("%s: the page lacks %q", name, c.want)
		}
	}
	w.Overrides.Err = rules.ErrUnavailable
	page := b.Post("/console/rules/1/overrides", url.Values{"key": {"user:9"}, "kind": {"blocked"}, "reason": {"typed"}})
	if page.Code != http.StatusServiceUnavailable || !page.Has("typed", "Nothing was saved") || w.Changes != 0 {
		t.Errorf("without the database: %d", page.Code)
	}
}

// The history of a rule has the changes of its overrides, field by field.
func TestRulePage_HasTheChangesOfItsOverrides(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Log.List = []audit.Entry{
		{ID: 3, Action: "override_create", SubjectKind: "rule", SubjectID: 2, SubjectName: "search-per-user",
			Details: []byte(`{"was":null,"is":{"key":"user:other","blocked":true}}`)},
		{ID: 2, Action: "override_create", SubjectKind: "rule", SubjectID: 1, SubjectName: "charges-per-user",
			Actor:   rules.Actor{Kind: "user", Name: "edda"},
			Details: []byte(`{"was":null,"is":{"key":"user:a<b","limit":10000,"reason":"contract"}}`)},
		{ID: 1, Action: "update", SubjectKind: "rule", SubjectID: 1, SubjectName: "charges-per-user",
			Details: []byte(`{"changes":[{"field":"limit","old":7,"new":8}]}`)},
	}
	b := w.As(access.RoleViewer)
	page := b.Get("/console/rules/1")
	if !page.Has("Recent changes of overrides: 1", "<code>user:a&lt;b</code>", "created by edda", "<ins>10,000</ins>",
		"<ins>contract</ins>", `href="/console/audit?kind=rule&amp;subject=charges-per-user"`) ||
		page.Has("user:other") {
		t.Errorf("%d %s", page.Code, page.Body)
	}
	w.Log.List = nil
	if page = b.Get("/console/rules/1"); page.Has("Recent changes of overrides") {
		t.Error("without changes there is a list of them")
	}
}
