package pools_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

func TestPools_AreListedMadeEditedAndDeleted(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	if page := b.Get("/console/pools"); !page.Has("shop", `popovertarget="delete-shop"`, "Delete the pool shop?", "76,800",
		"64%", "87%", "valid for 42 s") {
		t.Errorf("the list: %d\n%s", page.Code, page.Body)
	}
	form := url.Values{"name": {"mail"}, "limit": {"5000"}, "window_ms": {"10s"}, "normal_percent": {"70"},
		"low_percent": {"40"}}
	if page := b.Post("/console/pools", form); page.Code != http.StatusSeeOther || len(w.Pools.List) != 3 {
		t.Fatalf("making one: %d\n%s", page.Code, page.Body)
	}
	if page := b.Get("/console/pools/mail/edit"); !page.Has(`name="window_ms" type="text" autocomplete="off" value="10"`,
		`value="second" selected`) {
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
	page := b.Post("/console/pools/mail", form)
	if page.Header.Get("Location") != "/console/pools" || w.Pools.List[2].Version != 2 ||
		!b.Get("/console/pools").Has("Someone else has saved the same changes") {
		t.Errorf("a stale edit with the same content: %d\n%s", page.Code, page.Body)
	}
	form.Set("limit", "1")
	if page := b.Post("/console/pools/mail", form); page.Code != http.StatusConflict ||
		!page.Has("Someone else changed this pool in the meantime", "<del>9,000</del>", "<ins>1</ins>") ||
		page.Has("<th scope=\"row\">name</th>") {
		t.Errorf("a stale edit: %d\n%s", page.Code, page.Body)
	}
	form.Set("limit", "lots")
	if page := b.Post("/console/pools/mail", form); page.Code != http.StatusUnprocessableEntity ||
		!page.Has(`value="lots"`) {
		t.Errorf("nonsense: %d", page.Code)
	}
	if page := b.Post("/console/pools/shop/delete", url.Values{"version": {"1"}}); page.Code != http.StatusConflict ||
		!page.Has("Rules use this pool") {
		t.Errorf("deleting one that is used: %d", page.Code)
	}
	if page := b.Post("/console/pools/mail/delete", url.Values{"version": {"2"}}); page.Code != http.StatusSeeOther ||
		len(w.Pools.List) != 2 {
		t.Errorf("deleting: %d", page.Code)
	}
	w.Pools.Err = rules.ErrUnavailable
	if page := b.Get("/console/pools"); page.Code != http.StatusServiceUnavailable {
		t.Errorf("without the database: %d", page.Code)
	}
}

// The editor and the page of a rule say that the pool of the rule denies requests within the rule's limit.
func TestPools_TheirRulesSayThatTheyShed(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	pool := "shop"
	w.Rules.List[0].Pool = &pool
	form := url.Values{"name": {"new"}, "scope": {"user"}, "limit": {"10"}, "window_ms": {"60000"}, "is_active": {"on"},
		"pool": {pool}, "priority": {"low"}}
	pages := func() []webtest.Page {
		return []webtest.Page{w.As(access.RoleEditor).Post("/console/rules/preview", form),
			w.As(access.RoleViewer).Get(fmt.Sprintf("/console/rules/%d", w.Rules.List[0].ID))}
	}
	for i := range w.Pools.List {
		w.Pools.List[i].Shed = false
	}
	if err := w.Compile(); err != nil {
		t.Fatal(err)
	}
	for _, page := range pages() {
		if page.Has("sheds: these requests") {
			t.Errorf("a pool that does not shed: %s", page.Body)
		}
	}
	for i := range w.Pools.List {
		w.Pools.List[i].Shed = true
	}
	if err := w.Compile(); err != nil {
		t.Fatal(err)
	}
	for i, priority := range []string{"low", "normal"} {
		if page := pages()[i]; !page.Has("The pool shop sheds: these requests, of " + priority + " priority, pass only") {
			t.Errorf("%d %s", page.Code, page.Body)
		}
	}
}
