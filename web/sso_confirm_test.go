package web_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/web/webtest"
)

const ssoStart = "/console/sso/start"

// erasing is an admin by single sign-on, and an act that cannot be undone.
func erasing(t *testing.T) (w *webtest.World, b *webtest.Browser, erase func(extra ...string) webtest.Page) {
	t.Helper()
	w = world(t, webtest.SignOn)
	w.Handler = w.Server.WithErase()
	b = w.As(access.RoleAdmin)
	return w, b, func(extra ...string) webtest.Page {
		form := url.Values{"what": {`all "of" it`}}
		for _, name := range extra {
			form.Set(name, "yes")
		}
		return b.Post("/console/erase", form)
	}
}

const goneBy = "erased all &#34;of&#34; it, 1 fields"

func TestSSOConfirm_AsksElsewhereAndKeepsWhatWasTyped(t *testing.T) {
	w, b, erase := erasing(t)
	page := erase()
	if page.Code != http.StatusUnprocessableEntity ||
		!page.Has("Confirm: erase all &#34;of&#34; it</h1>", `name="what" value="all &#34;of&#34; it"`, `action="/console/erase"`, `name="again"`,
			`target="_blank"`) ||
		page.Has("confirm_password") {
		t.Fatalf("single sign-on of who knows when counts: %d\n%s", page.Code, page.Body)
	}
	if page := erase("confirm_elsewhere"); page.Code != http.StatusUnprocessableEntity ||
		!page.Has("You have not signed in again") {
		t.Errorf("saying so is enough: %d", page.Code)
	}
	if page := erase("confirm_password"); page.Code != http.StatusUnprocessableEntity ||
		page.Has("Wrong name or password.") {
		t.Errorf("a password: %d", page.Code)
	}
	secret := b.Cookies()["sluice_session"]
	if page := b.Post(ssoStart, url.Values{"again": {"yes"}}); page.Code != http.StatusOK || !w.Provider.Last().Fresh {
		t.Fatalf("start: %d, fresh %v", page.Code, w.Provider.Last().Fresh)
	}
	if page := b.Get(w.Provider.Answer(webtest.Identity(access.RoleAdmin))); page.Code != http.StatusOK ||
		!page.Has(">Confirmed<") {
		t.Fatalf("back: %d", page.Code)
	}
	if b.Cookies()["sluice_session"] == secret {
		t.Error("the session kept its secret")
	}
	if page := erase("confirm_elsewhere"); page.Code != http.StatusSeeOther || !b.Get("/console").Has(goneBy) {
		t.Errorf("confirmed: %d", page.Code)
	}
	w.Clock.Add(11 * time.Minute)
	if page := erase(); page.Code != http.StatusUnprocessableEntity {
		t.Errorf("eleven minutes later: %d", page.Code)
	}
}

func TestSSOConfirm_RefusesSomeoneElseAndWhoWasNotAsked(t *testing.T) {
	for name, tt := range map[string]struct {
		id    access.Identity
		stale bool
		old   time.Duration
		want  string
	}{
		"someone else":      {id: webtest.Identity(access.RoleEditor), want: "Different account"},
		"no time":           {id: webtest.Identity(access.RoleAdmin), stale: true, want: "Not confirmed"},
		"an hour ago":       {id: webtest.Identity(access.RoleAdmin), stale: true, old: time.Hour, want: "Not confirmed"},
		"someone else, old": {id: webtest.Identity(access.RoleViewer), stale: true, want: "Different account"},
	} {
		w, b, erase := erasing(t)
		b.Post(ssoStart, url.Values{"again": {"yes"}})
		w.Provider.Stale = tt.stale
		if tt.old > 0 {
			tt.id.AuthTime = w.Clock.Now().Add(-tt.old)
		}
		if page := b.Get(w.Provider.Answer(tt.id)); page.Code != http.StatusForbidden || !page.Has(tt.want) {
			t.Errorf("%s: %d lacks %q", name, page.Code, tt.want)
		}
		if page := erase("confirm_elsewhere"); page.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: the act went on: %d", name, page.Code)
		}
		if page := b.Get("/console"); page.Code != http.StatusOK || !page.Has(webtest.Identity(access.RoleAdmin).Name) {
			t.Errorf("%s: the session changed: %d", name, page.Code)
		}
		if _, found := w.Users.Account(webtest.Identity(access.RoleEditor)); found {
			t.Errorf("%s: an account was made", name)
		}
	}
}

func TestSSOConfirm_IsForWhoSignedInThere(t *testing.T) {
	w := world(t, webtest.SignOn)
	stranger, local := w.Browser(), w.Browser()
	local.Post("/console/sign-in", webtest.Credentials("ada", webtest.Password))
	for _, b := range []*webtest.Browser{stranger, local} {
		if page := b.Post(ssoStart, url.Values{"again": {"yes"}}); page.Code != http.StatusSeeOther {
			t.Errorf("got %d", page.Code)
		}
	}
	// An attempt to confirm does not outlive its session.
	b := w.As(access.RoleAdmin)
	b.Post(ssoStart, url.Values{"again": {"yes"}})
	answer := w.Provider.Answer(webtest.Identity(access.RoleAdmin))
	b.Post("/console/sign-in", webtest.Credentials("ada", webtest.Password))
	if page := b.Get(answer); page.Code != http.StatusBadRequest {
		t.Errorf("another account confirmed: %d", page.Code)
	}
}

func TestSSOConfirm_ALostRoleEndsTheSession(t *testing.T) {
	w, b, _ := erasing(t)
	b.Post(ssoStart, url.Values{"again": {"yes"}})
	lost := webtest.Identity(access.RoleAdmin)
	lost.Role = ""
	if page := b.Get(w.Provider.Answer(lost)); page.Code != http.StatusForbidden || !page.Has("No role assigned") {
		t.Errorf("no role: %d", page.Code)
	}
	if page := b.Get("/console"); page.Code != http.StatusSeeOther {
		t.Errorf("the session goes on: %d", page.Code)
	}
	w, b, erase := erasing(t)
	b.Post(ssoStart, url.Values{"again": {"yes"}})
	less := webtest.Identity(access.RoleAdmin)
	less.Role = access.RoleViewer
	if page := b.Get(w.Provider.Answer(less)); page.Code != http.StatusOK {
		t.Errorf("another role: %d", page.Code)
	}
	if page := erase("confirm_elsewhere"); page.Code != http.StatusForbidden {
		t.Errorf("a viewer may: %d", page.Code)
	}
}

func TestSSOConfirm_AFreshSignInCounts(t *testing.T) {
	w := world(t, webtest.SignOn)
	w.Handler = w.Server.WithErase()
	for age, want := range map[time.Duration]int{
		time.Minute: http.StatusSeeOther, 11 * time.Minute: http.StatusUnprocessableEntity,
		-30 * time.Second: http.StatusSeeOther,
	} {
		id := webtest.Identity(access.RoleAdmin)
		id.AuthTime = w.Clock.Now().Add(-age)
		b := w.Browser()
		b.SignOn(id)
		if page := b.Post("/console/erase", url.Values{"what": {"x"}}); page.Code != want {
			t.Errorf("signed in there %s ago: %d, want %d", age, page.Code, want)
		}
	}
}
