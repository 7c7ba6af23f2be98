package profiles_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

func mailForm(more ...string) url.Values {
	form := url.Values{"name": {"mail"}, "facts.user": {"header X-User\r\nvalue anonymous\r\n"}, "routes": {"/users/{id}"},
		"path": {"normal"}, "claims": {"off"}, "proof.token": {"on"}, "missing": {"tier value free"}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

func TestProfiles_AreListedCreatedEditedAndDeleted(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	if page := b.Get("/console/profiles"); !page.Has("nginx in front of the shop", "user, API key, tenant",
		`popovertarget="delete-shop"`, "none, so every question is refused", `href="/console/profiles/shop/edit"`) {
		t.Errorf("the list: %d\n%s", page.Code, page.Body)
	}
	page := b.Post("/console/profiles", mailForm())
	if page.Header.Get("Location") != "/console/profiles/mail" || len(w.Profiles.List) != 3 {
		t.Fatalf("creating one: %d\n%s", page.Code, page.Body)
	}
	if p := w.Profiles.List[2]; len(p.Facts.User) != 2 || p.Missing["tier"].Value != "free" || len(p.Headers) != 0 {
		t.Errorf("stored %+v", p)
	}
	if page := b.Get("/console/profiles/mail"); !page.Has("/ratelimit/forward/mail", "<code>header X-User</code>",
		"<code>tier value free</code>", "accepted in Sluice-Token") {
		t.Errorf("its page: %d\n%s", page.Code, page.Body)
	}
	if page := b.Get("/console/profiles/mail/edit"); !page.Has("header X-User\nvalue anonymous\n</textarea>", `value="1"`) {
		t.Errorf("its form: %d\n%s", page.Code, page.Body)
	}
	if page := b.Post("/console/profiles", mailForm()); page.Code != http.StatusConflict || !page.Has("another profile") {
		t.Errorf("twice: %d", page.Code)
	}
	page = b.Post("/console/profiles/mail", mailForm("version", "1", "routes", "/a\r\n/b"))
	if page.Code != http.StatusSeeOther || len(w.Profiles.List[2].Routes) != 2 {
		t.Errorf("editing: %d\n%s", page.Code, page.Body)
	}
	page = b.Post("/console/profiles/mail", mailForm("version", "1", "facts.tier", "header X-Tier"))
	if page.Code != http.StatusConflict || !page.Has("Someone else changed this profile in the meantime",
		"<del>/a, /b</del>", "<ins>/users/{id}</ins>", "<ins>header X-Tier</ins>", `name="version" value="2"`) {
		t.Errorf("a stale edit: %d\n%s", page.Code, page.Body)
	}
	page = b.Post("/console/profiles/mail", mailForm("version", "1", "routes", "/a\r\n/b"))
	if page.Header.Get("Location") != "/console/profiles/mail" || w.Profiles.List[2].Version != 2 ||
		!b.Get("/console/profiles/mail").Has("Someone else has saved the same changes") {
		t.Errorf("a stale edit with the same content: %d\n%s", page.Code, page.Body)
	}
	if page := b.Post("/console/profiles/mail", mailForm("version", "2", "facts.user", "X-User")); page.Code !=
		http.StatusUnprocessableEntity || !page.Has(">X-User</textarea>", "Line 1: must be header") {
		t.Errorf("nonsense: %d\n%s", page.Code, page.Body)
	}
	page = b.Post("/console/profiles", mailForm("name", "a b", "facts.user", "X-User", "routes", "users"))
	if !page.Has("Line 1: must be header", "must be 1 to 63 of a-z", "Line 1: must start with /") {
		t.Errorf("several errors: %d\n%s", page.Code, page.Body)
	}
	if page := b.Post("/console/profiles/gone", mailForm("version", "1")); page.Code != http.StatusConflict ||
		!page.Has(`value="gone"`, `action="/console/profiles"`, "deleted this in the meantime") {
		t.Errorf("one that is gone: %d\n%s", page.Code, page.Body)
	}
	if page := b.Post("/console/profiles/mail/delete", url.Values{"version": {"2"}}); page.Code != http.StatusSeeOther ||
		len(w.Profiles.List) != 2 {
		t.Errorf("deleting: %d", page.Code)
	}
	w.Profiles.Err = rules.ErrUnavailable
	if page := b.Get("/console/profiles"); page.Code != http.StatusServiceUnavailable {
		t.Errorf("without the database: %d", page.Code)
	}
	if page := b.Post("/console/profiles", mailForm()); page.Code != http.StatusServiceUnavailable ||
		!page.Has("header X-User", "The rules database is unreachable. Nothing was saved. What you typed is still here") {
		t.Errorf("saving without the database: %d\n%s", page.Code, page.Body)
	}
}

func TestProfiles_AViewerOnlyReads(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	for _, path := range []string{"/console/profiles", "/console/profiles/shop"} {
		if page := b.Get(path); page.Code != http.StatusOK || page.Has("Edit") || page.Has("New profile") {
			t.Errorf("%s: %d\n%s", path, page.Code, page.Body)
		}
	}
	if page := b.Post("/console/profiles", mailForm()); page.Code != http.StatusForbidden || len(w.Profiles.List) != 2 {
		t.Errorf("saving: %d", page.Code)
	}
	if page := b.Get("/console/profiles/nobody"); page.Code != http.StatusNotFound {
		t.Errorf("one that is not there: %d", page.Code)
	}
}

// The database fails between the conflict and the look at the colleague's version: nothing that was typed is lost.
func TestProfiles_AConflictDuringAnOutageKeepsWhatWasTyped(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	w.Profiles.GetErr = rules.ErrUnavailable
	page := b.Post("/console/profiles/shop", mailForm("version", "99", "routes", "/typed"))
	if page.Code != http.StatusServiceUnavailable || !page.Has("/typed", "What you typed is still here", `value="99"`) {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
}

// A page with many routes shows how many there are, and lists them on request.
func TestProfiles_LongListsAreFolded(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	for i := range 13 {
		w.Profiles.List[0].Routes = append(w.Profiles.List[0].Routes, fmt.Sprintf("/v1/%d", i))
	}
	if page := w.As(access.RoleViewer).Get("/console/profiles/internal"); !page.Has("<summary>13 lines</summary>",
		"<code>/v1/12</code>") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
}
