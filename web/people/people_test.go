package people_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

var inviteLink = regexp.MustCompile(`/console/invite\?token=([A-Za-z0-9_-]{43})`)

func invite(t *testing.T, page webtest.Page) (path, secret string) {
	t.Helper()
	found := inviteLink.FindStringSubmatch(page.Body)
	if page.Code != http.StatusOK || found == nil {
		t.Fatalf("no link: %d\n%s", page.Code, page.Body)
	}
	return found[0], found[1]
}

func TestPeople_ALinkLetsItsOwnerChooseAPasswordOnce(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	admin := w.As(access.RoleAdmin)
	page := admin.Post("/console/people/new", url.Values{"name": {" grace "}, "role": {"editor"}, "by": {"link"}})
	path, secret := invite(t, page)
	if again := admin.Get("/console/people"); again.Has(secret) || !again.Has("grace", "no password yet") {
		t.Error("the list does not show the account, or shows the link")
	}
	b := w.Browser()
	for range 2 {
		if page := b.Get(path); page.Code != http.StatusOK || !page.Has("Welcome, grace") {
			t.Fatalf("looking at the link: %d", page.Code)
		}
	}
	form := url.Values{"token": {secret}, "password": {"short"}, "repeat": {"short"}}
	if page := b.Post("/console/invite", form); page.Code != http.StatusUnprocessableEntity ||
		!page.Has("must have at least 12 characters") {
		t.Errorf("a short password: %d", page.Code)
	}
	form.Set("password", "a long enough one")
	if page := b.Post("/console/invite", form); page.Code != http.StatusUnprocessableEntity ||
		!page.Has("must match the password") {
		t.Errorf("another repetition: %d", page.Code)
	}
	form.Set("repeat", "a long enough one")
	if page := b.Post("/console/invite", form); page.Code != http.StatusSeeOther ||
		!b.Get("/console").Has("grace", "Your password is set") {
		t.Fatalf("the password: %d\n%s", page.Code, page.Body)
	}
	if page := w.Browser().Post("/console/invite", form); page.Code != http.StatusGone {
		t.Errorf("the link worked twice: %d", page.Code)
	}
	sign := w.Browser().Post("/console/sign-in", url.Values{"name": {"grace"}, "password": {"a long enough one"}})
	if sign.Code != http.StatusSeeOther {
		t.Errorf("signing in: %d", sign.Code)
	}
}

func TestPeople_ALinkEndsWithTimeAndWithAnyChangeOfTheAccount(t *testing.T) {
	for name, end := range map[string]func(*webtest.World, *webtest.Browser){
		"time": func(w *webtest.World, _ *webtest.Browser) { w.Clock.Add(49 * time.Hour) },
		"role": func(_ *webtest.World, b *webtest.Browser) {
			b.Post("/console/people/1/role", url.Values{"role": {"editor"}})
		},
		"disabled": func(_ *webtest.World, b *webtest.Browser) {
			b.Post("/console/people/1/state", url.Values{"state": {"disabled"}})
		},
		"signed out": func(_ *webtest.World, b *webtest.Browser) { b.Post("/console/people/1/sign-out", url.Values{}) },
	} {
		w := webtest.Start(t, webtest.Full)
		admin := w.As(access.RoleAdmin)
		path, secret := invite(t, admin.Post("/console/people/1/link", url.Values{}))
		end(w, admin)
		if page := w.Browser().Get(path); page.Code != http.StatusGone {
			t.Errorf("%s: the link shows %d", name, page.Code)
		}
		form := url.Values{"token": {secret}, "password": {"a long enough one"}, "repeat": {"a long enough one"}}
		if page := w.Browser().Post("/console/invite", form); page.Code != http.StatusGone {
			t.Errorf("%s: the link works: %d", name, page.Code)
		}
	}
}

func TestPeople_BadInputIsShownBesideItsField(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleAdmin)
	for _, tt := range []struct {
		form url.Values
		has  string
	}{
		{url.Values{"name": {"ada"}, "role": {"king"}, "by": {"link"}}, "must be one of viewer, editor, admin"},
		{url.Values{"name": {"grace"}, "role": {"viewer"}, "by": {"password"}, "password": {"hunter2"}},
			"must have at least 12 characters"},
		{url.Values{"name": {""}, "role": {"viewer"}, "by": {"link"}}, "must not be empty"},
		{url.Values{"name": {`"><script>alert(1)</script>`}, "role": {"viewer"}, "by": {"never"}},
			"must be an invite link or a password"},
	} {
		page := b.Post("/console/people/new", tt.form)
		if page.Code != http.StatusUnprocessableEntity || !page.Has(tt.has) || page.Has("<script>alert") ||
			page.Has("hunter2") {
			t.Errorf("%v: %d lacks %q", tt.form, page.Code, tt.has)
		}
	}
	for path, form := range map[string]url.Values{
		"/console/people/1/role": {"role": {"king"}}, "/console/people/1/state": {"state": {"asleep"}},
	} {
		if page := b.Post(path, form); page.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", path, page.Code)
		}
	}
	for _, path := range []string{"/console/people/99", "/console/people/x"} {
		if page := b.Get(path); page.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, page.Code)
		}
	}
}

func TestPeople_TheLastAdminStaysAndNobodyKeepsThemselvesOut(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	if page := b.Post("/console/people/3/role", url.Values{"role": {"viewer"}}); page.Code != http.StatusConflict ||
		!page.Has("Last administrator") {
		t.Errorf("demoted: %d", page.Code)
	}
	if page := b.Post("/console/people/3/state", url.Values{"state": {"disabled"}}); page.Code != http.StatusConflict ||
		!page.Has("cannot disable your own account") {
		t.Errorf("kept out: %d", page.Code)
	}
	if page := b.Get("/console/people"); page.Code != http.StatusOK {
		t.Errorf("ada lost her session: %d", page.Code)
	}
}

func TestPeople_AChangeEndsTheSessionsOfItsAccount(t *testing.T) {
	for path, form := range map[string]url.Values{
		"/console/people/2/role": {"role": {"viewer"}}, "/console/people/2/state": {"state": {"disabled"}},
		"/console/people/2/sign-out": {},
	} {
		w := webtest.Start(t, webtest.Full)
		admin, edda := w.As(access.RoleAdmin), w.As(access.RoleEditor)
		if page := admin.Get("/console/people/2"); !page.Has("Sign out all sessions", "192.0.2.1") {
			t.Error("the session is not shown")
		}
		if page := admin.Post(path, form); page.Code != http.StatusSeeOther ||
			page.Header.Get("Location") != "/console/people/2" {
			t.Fatalf("%s: %d", path, page.Code)
		}
		if page := edda.Get("/console/rules"); page.Code != http.StatusSeeOther {
			t.Errorf("%s: the session goes on: %d", path, page.Code)
		}
	}
}

func TestAccount_AnotherPasswordEndsEveryOtherSession(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	here, there := w.As(access.RoleViewer), w.As(access.RoleViewer)
	form := url.Values{"current": {"wrong"}, "password": {"a long enough one"}, "repeat": {"a long enough one"}}
	if page := here.Post("/console/account/password", form); page.Code != http.StatusUnprocessableEntity ||
		!page.Has("is not your current password") {
		t.Errorf("the wrong password: %d", page.Code)
	}
	form.Set("current", webtest.Password)
	if page := here.Post("/console/account/password", form); page.Code != http.StatusSeeOther ||
		!here.Get("/console/account").Has("Password changed") {
		t.Errorf("changing: %d", page.Code)
	}
	if page := there.Get("/console"); page.Code != http.StatusSeeOther {
		t.Errorf("the other session goes on: %d", page.Code)
	}
	if page := w.Browser().Post("/console/sign-in",
		url.Values{"name": {"vera"}, "password": {"a long enough one"}}); page.Code != http.StatusSeeOther {
		t.Errorf("the new password: %d", page.Code)
	}
}

var sessionButton = regexp.MustCompile(`name="which" value="([0-9a-f]{16})"`)

func TestAccount_SessionsEndOneByOneAndTogether(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	here, there, third, other := w.As(access.RoleViewer), w.As(access.RoleViewer), w.As(access.RoleViewer),
		w.As(access.RoleEditor)
	ids := sessionButton.FindAllStringSubmatch(here.Get("/console/account").Body, -1)
	if len(ids) != 2 {
		t.Fatalf("%d other sessions, want 2", len(ids))
	}
	if other.Post("/console/account/sessions",
		url.Values{"which": {ids[0][1]}}); there.Get("/console").Code != http.StatusOK || third.Get(
		"/console").Code != http.StatusOK {
		t.Error("someone else ended the session")
	}
	here.Post("/console/account/sessions", url.Values{"which": {ids[0][1]}})
	if a, b := there.Get("/console").Code, third.Get("/console").Code; a+b != http.StatusOK+http.StatusSeeOther {
		t.Errorf("one of two should have ended: %d, %d", a, b)
	}
	here.Post("/console/account/sessions", url.Values{"which": {"others"}})
	if there.Get("/console").Code == http.StatusOK || third.Get("/console").Code == http.StatusOK ||
		here.Get("/console").Code != http.StatusOK {
		t.Error("others: only this one should go on")
	}
	if page := here.Post("/console/account/sessions",
		url.Values{"which": {"all"}}); !strings.HasPrefix(page.Header.Get("Location"),
		"/console/sign-in") || here.Get("/console").Code != http.StatusSeeOther {
		t.Error("all: this one goes on")
	}
	if other.Get("/console").Code != http.StatusOK {
		t.Error("edda was signed out too")
	}
}

func TestAdmin_SaysWhenTheDatabaseIsAway(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	w.Tokens.Err, w.Log.Err, w.Rules.Err = rules.ErrUnavailable, rules.ErrUnavailable, rules.ErrUnavailable
	for _, page := range []webtest.Page{
		b.Get("/console/tokens"), b.Get("/console/audit"), b.Get("/console/audit/download"), b.Get("/console/export"),
		b.Post("/console/tokens/new", url.Values{"name": {"x"}, "days": {"7"}, "scope_check": {"on"}}),
		b.Post("/console/tokens/1/revoke", url.Values{}),
		b.Post("/console/import", url.Values{"text": {webtest.SampleFile}}),
	} {
		if page.Code != http.StatusServiceUnavailable || !page.Has("The rules database is unreachable") {
			t.Errorf("got %d\n%.300s", page.Code, page.Body)
		}
	}
}

// TestPeople_ALinkWarnsOfAGuessedAddress asks under a Host of the caller's choice, with
// a forwarding header that only a trusted proxy may send.
func TestPeople_ALinkWarnsOfAGuessedAddress(t *testing.T) {
	for _, c := range []struct {
		name, public, from, proto, want string
		warns                           bool
	}{
		{"untrusted", "", "192.0.2.7", "https", "http://example.com", true},
		{"trusted", "", "10.1.2.3", "https", "https://example.com", true},
		{"trusted, not encrypted", "", "10.1.2.3", "http", "http://example.com", true},
		{"configured", "http://sluice.example.net", "192.0.2.7", "https", "http://sluice.example.net", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := webtest.Start(t, webtest.Full)
			d := w.Deps(nil)
			d.PublicURL, d.TrustedProxies = c.public, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
			if err := w.Serve(d); err != nil {
				t.Fatal(err)
			}
			admin := w.As(access.RoleAdmin)
			admin.Address = c.from
			admin.Header.Set("X-Forwarded-Proto", c.proto)
			page := admin.Post("/console/people/1/link", url.Values{})
			if page.Code != http.StatusOK || !page.Has(">"+c.want+"/console/invite?token=") {
				t.Errorf("status %d, and no link that begins with %s", page.Code, c.want)
			}
			if page.Has("Check the address before you send the link") != c.warns {
				t.Errorf("it warns: %v, want %v", !c.warns, c.warns)
			}
		})
	}
}
