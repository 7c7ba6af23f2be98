package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"sluice/internal/access"
	"sluice/internal/fleet"
	"sluice/rules"
	"sluice/web/webtest"
)

func TestOverrides_AreListedAddedEditedAndDeleted(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleEditor)
	if page := b.Get("/console/rules/1/overrides?q=acme"); !page.Has("user:acme-*", "2\u202f000", `popovertarget="delete-1"`, "Delete the override for user:acme-*?") || page.Has("user:monitoring") {
		t.Errorf("the search gives %d\n%s", page.Code, page.Body)
	}
	page := b.Post("/console/rules/1/overrides", url.Values{"key": {"user:77"}, "kind": {"limit"}, "limit": {"500"}, "reason": {"contract"}, "expires_at": {"2027-01-31T18:00"}})
	if page.Code != http.StatusSeeOther || len(w.Overrides.List) != 4 || *w.Overrides.List[3].Limit != 500 || w.Overrides.List[3].ExpiresAt.Hour() != 18 {
		t.Fatalf("adding gave %d\n%s", page.Code, page.Body)
	}
	if page := b.Get("/console/rules/1/overrides/4/edit"); !page.Has(`value="500"`, `value="2027-01-31T18:00"`, "contract") {
		t.Errorf("the form of it: %d", page.Code)
	}
	page = b.Post("/console/rules/1/overrides/4", url.Values{"key": {"user:77"}, "kind": {"blocked"}, "version": {"1"}})
	if page.Code != http.StatusSeeOther || !w.Overrides.List[3].Blocked || w.Overrides.List[3].Limit != nil {
		t.Fatalf("editing gave %d\n%s", page.Code, page.Body)
	}
	page = b.Post("/console/rules/1/overrides/4", url.Values{"key": {"user:77"}, "kind": {"unlimited"}, "reason": {"kept"}, "version": {"1"}})
	if page.Code != http.StatusConflict || !page.Has("Somebody changed it meanwhile", "blocked", "kept") || w.Overrides.List[3].Unlimited {
		t.Errorf("a stale edit gave %d\n%s", page.Code, page.Body)
	}
	if page := b.Post("/console/rules/1/overrides/4/delete", url.Values{"version": {"2"}}); page.Code != http.StatusSeeOther || len(w.Overrides.List) != 3 {
		t.Errorf("deleting gave %d", page.Code)
	}
	if w.Changes != 3 {
		t.Errorf("%d changes were told of 3", w.Changes)
	}
}

func TestOverrides_KeepWhatWasTyped(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleEditor)
	for name, c := range map[string]struct {
		form url.Values
		code int
		want string
	}{
		"no key":     {url.Values{"kind": {"blocked"}, "reason": {"<b>mine</b>"}}, http.StatusUnprocessableEntity, "f-key-hint"},
		"no number":  {url.Values{"key": {"user:9"}, "limit": {"many"}, "reason": {"<b>mine</b>"}}, http.StatusUnprocessableEntity, "must be a whole number"},
		"other fact": {url.Values{"key": {"ip:203.0.113.7"}, "limit": {"5"}, "burst": {"9"}, "reason": {"<b>mine</b>"}}, http.StatusUnprocessableEntity, "class=\"error\""},
		"too much":   {url.Values{"key": {"user:9"}, "kind": {"blocked"}, "limit": {"5"}, "reason": {"<b>mine</b>"}}, http.StatusUnprocessableEntity, "belongs to another limit"},
		"a burst":    {url.Values{"key": {"user:9"}, "kind": {"unlimited"}, "burst": {"5"}, "reason": {"<b>mine</b>"}}, http.StatusUnprocessableEntity, "belongs to another limit"},
		"taken":      {url.Values{"key": {"user:42"}, "kind": {"blocked"}, "reason": {"<b>mine</b>"}}, http.StatusConflict, "has an override already"},
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
	if page.Code != http.StatusServiceUnavailable || !page.Has("typed", "Nothing has been saved") || w.Changes != 0 {
		t.Errorf("without the database: %d", page.Code)
	}
}

func TestOverrideImport_ShowsFirstAndNamesBadLines(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleEditor)
	const csv = "key,limit,reason\nuser:77,500,contract\n"
	const path = "/console/rules/1/overrides/import"
	page := b.Post(path, url.Values{"csv": {csv}, "do": {"plan"}})
	if page.Code != http.StatusOK || !page.Has("would add 1", "user:77") || len(w.Overrides.List) != 3 {
		t.Fatalf("the plan: %d, %d overrides", page.Code, len(w.Overrides.List))
	}
	form := func() url.Values {
		plan, of := hidden(page, "plan"), hidden(page, "of")
		return url.Values{"csv": {csv}, "do": {"apply"}, "plan": {plan}, "of": {of}}
	}
	for name, change := range map[string]func(url.Values){
		"no plan":      func(f url.Values) { f.Del("plan") },
		"another file": func(f url.Values) { f.Set("csv", csv+"user:78,1,\n") },
		"prune added":  func(f url.Values) { f.Set("prune", "on") },
		"another plan": func(f url.Values) { f.Set("plan", "7") },
	} {
		f := form()
		change(f)
		if page := b.Post(path, f); page.Code != http.StatusConflict || !page.Has("nothing was done", "would add") || len(w.Overrides.List) != 3 {
			t.Errorf("%s: %d, %d overrides", name, page.Code, len(w.Overrides.List))
		}
	}
	if page := b.Post(path, form()); page.Code != http.StatusSeeOther || len(w.Overrides.List) != 4 {
		t.Errorf("the import: %d", page.Code)
	}
	if page := b.Post("/console/rules/1/overrides/import", url.Values{"csv": {"key,limit\nuser:1,many\n"}, "do": {"apply"}}); page.Code != http.StatusUnprocessableEntity || !page.Has("line[2].limit", "user:1,many") {
		t.Errorf("a bad line: %d\n%s", page.Code, page.Body)
	}
}

func TestPools_AreListedMadeEditedAndDeleted(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleEditor)
	if page := b.Get("/console/pools"); !page.Has("shop", `popovertarget="delete-shop"`, "Delete the pool shop?", "76\u202f800", "64%", "87%", "for another 42 s") {
		t.Errorf("the list: %d\n%s", page.Code, page.Body)
	}
	form := url.Values{"name": {"mail"}, "limit": {"5000"}, "window_ms": {"10s"}, "normal_percent": {"70"}, "low_percent": {"40"}}
	if page := b.Post("/console/pools", form); page.Code != http.StatusSeeOther || len(w.Pools.List) != 3 {
		t.Fatalf("making one: %d\n%s", page.Code, page.Body)
	}
	if page := b.Get("/console/pools/mail/edit"); !page.Has(`name="window_ms" type="text" autocomplete="off" value="10"`, `value="second" selected`) {
		t.Errorf("its window: %d\n%s", page.Code, page.Body)
	}
	if page := b.Post("/console/pools", form); page.Code != http.StatusConflict || !page.Has("another pool") {
		t.Errorf("twice: %d", page.Code)
	}
	form.Set("limit", "9000")
	form.Set("version", "1")
	if page := b.Post("/console/pools/mail", form); page.Code != http.StatusSeeOther || w.Pools.List[2].Limit != 9000 {
		t.Errorf("editing: %d\n%s", page.Code, page.Body)
	}
	form.Set("limit", "1")
	if page := b.Post("/console/pools/mail", form); page.Code != http.StatusConflict || !page.Has("Somebody changed it meanwhile", "<del>9\u202f000</del>") {
		t.Errorf("a stale edit: %d\n%s", page.Code, page.Body)
	}
	form.Set("limit", "lots")
	if page := b.Post("/console/pools/mail", form); page.Code != http.StatusUnprocessableEntity || !page.Has(`value="lots"`) {
		t.Errorf("nonsense: %d", page.Code)
	}
	if page := b.Post("/console/pools/shop/delete", url.Values{"version": {"1"}}); page.Code != http.StatusConflict || !page.Has("Rules use this pool") {
		t.Errorf("deleting one that is used: %d", page.Code)
	}
	if page := b.Post("/console/pools/mail/delete", url.Values{"version": {"2"}}); page.Code != http.StatusSeeOther || len(w.Pools.List) != 2 {
		t.Errorf("deleting: %d", page.Code)
	}
	w.Pools.Err = rules.ErrUnavailable
	if page := b.Get("/console/pools"); page.Code != http.StatusServiceUnavailable {
		t.Errorf("without the database: %d", page.Code)
	}
}

func TestHotKeys_AreTheFleetsWithTheirRulesAndNodes(t *testing.T) {
	w := world(t, webtest.Full)
	webtest.HeatUp(w)
	b := w.As(access.RoleViewer)
	page := b.Get("/console/hot-keys")
	if page.Code != http.StatusOK || !page.Has("user:user-40", "hot, exact", "4\u202f200", "charges-per-user", "10.0.0.5:8080: 2\u202f800/s", "10.0.0.6:8080: 1\u202f400/s", `href="/console/keys?key=user%3Auser-40&amp;rule=charges-per-user"`, "2 keys are hot") {
		t.Errorf("got %d\n%s", page.Code, page.Body)
	}
	if page := b.Get("/console"); !page.Has("2 keys are hot", "user:user-41", `href="/console/hot-keys"`) {
		t.Error("the overview does not tell")
	}
	if page := b.Get("/console/rules/1"); !page.Has("Checks a second on all nodes.", "user:user-40") {
		t.Error("the page of the rule does not tell")
	}
	w.Fleet.Change(func(l *fleet.Live) { l.Err = rules.ErrUnavailable })
	if page := b.Get("/console/hot-keys"); page.Code != http.StatusOK || !page.Has("live data unavailable", "user:user-40") {
		t.Errorf("without the board: %d", page.Code)
	}
	w.Fleet.Change(func(l *fleet.Live) { l.Err, l.Hot = nil, nil })
	if page := b.Get("/console/hot-keys"); !page.Has("Nothing is busy") || page.Has("is hot", "are hot") {
		t.Error("no traffic is not told")
	}
}
