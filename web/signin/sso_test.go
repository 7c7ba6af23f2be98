package signin_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/webtest"
)

const (
	ssoStart    = "/console/sso/start"
	ssoCallback = "/console/sso/callback"
)

func TestSSO_LetsInWithTheRoleOfTheProvider(t *testing.T) {
	w := webtest.Start(t, webtest.SignOn)
	for _, role := range access.Roles() {
		b := w.Browser()
		if page := b.Get("/console/sign-in?next=/console/rules"); !page.Has("Sign in with Example ID",
			`action="/console/sso/start"`, `value="/console/rules"`) {
			t.Fatal("the form to sign in has no button")
		}
		page := b.Post(ssoStart, url.Values{"next": {"/console/rules"}})
		if page.Code != http.StatusOK || page.Header.Get("Refresh") != "0; url=/console/sso/go" ||
			!page.Has(`href="/console/sso/go"`) {
			t.Fatalf("start: %d, refresh %q", page.Code, page.Header.Get("Refresh"))
		}
		before := b.Cookies()["sluice_session"]
		page = b.Get("/console/sso/go")
		if to := page.Header.Get("Location"); page.Code != http.StatusSeeOther ||
			!strings.HasPrefix(to, webtest.Issuer+"/authorize?state=") {
			t.Fatalf("go: %d to %q", page.Code, to)
		}
		page = b.Get(w.Provider.Answer(webtest.Identity(role)))
		if page.Code != http.StatusSeeOther || page.Header.Get("Location") != "/console/rules" {
			t.Fatalf("back: %d to %q", page.Code, page.Header.Get("Location"))
		}
		if b.Cookies()["sluice_session"] == before {
			t.Error("signing in kept the session's secret")
		}
		if page := b.Get("/console"); !page.Has(webtest.Identity(role).Name, string(role)) {
			t.Errorf("as %s: %d", role, page.Code)
		}
	}
}

func TestSSO_EachAttemptHasASessionOfItsOwn(t *testing.T) {
	w := webtest.Start(t, webtest.SignOn)
	b := begun(t, w)
	first, secret := b.Cookies()["sluice_session"], w.Provider.Last()
	b.Post(ssoStart, url.Values{})
	if next := w.Provider.Last(); b.Cookies()["sluice_session"] == first || next.State == secret.State ||
		next.Nonce == secret.Nonce || next.Verifier == secret.Verifier {
		t.Error("two attempts share a secret")
	}
	if n := w.Sessions.Len(); n != 1 {
		t.Errorf("%d sessions are stored of one browser", n)
	}
}

func TestSSO_TurnedOffIsNotThere(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.Browser()
	for _, page := range []webtest.Page{b.Post(ssoStart, url.Values{}), b.Get("/console/sso/go"),
		b.Get(ssoCallback + "?code=x&state=y")} {
		if page.Code != http.StatusNotFound {
			t.Errorf("got %d", page.Code)
		}
	}
	if b.Get("/console/sign-in").Has("/sso") {
		t.Error("the form to sign in has a button")
	}
}

// begun is a browser on its way to the provider.
func begun(t *testing.T, w *webtest.World) *webtest.Browser {
	t.Helper()
	b := w.Browser()
	if page := b.Post(ssoStart, url.Values{}); page.Code != http.StatusOK {
		t.Fatalf("start: %d", page.Code)
	}
	return b
}

func TestSSO_AnAnswerIsGoodOnceInTimeForItsBrowser(t *testing.T) {
	viewer := webtest.Identity(access.RoleViewer)
	tests := map[string]func(*webtest.World) (*webtest.Browser, string){
		"no attempt": func(w *webtest.World) (*webtest.Browser, string) {
			begun(t, w)
			return w.Browser(), w.Provider.Answer(viewer)
		},
		"another browser": func(w *webtest.World) (*webtest.Browser, string) {
			begun(t, w)
			answer := w.Provider.Answer(viewer)
			return begun(t, w), answer
		},
		"another state": func(w *webtest.World) (*webtest.Browser, string) {
			b := begun(t, w)
			return b, strings.Replace(w.Provider.Answer(viewer), "state=", "state=x", 1)
		},
		"no state": func(w *webtest.World) (*webtest.Browser, string) {
			b := begun(t, w)
			answer, _, _ := strings.Cut(w.Provider.Answer(viewer), "&state=")
			return b, answer
		},
		"too late": func(w *webtest.World) (*webtest.Browser, string) {
			b := begun(t, w)
			w.Clock.Add(10 * time.Minute)
			return b, w.Provider.Answer(viewer)
		},
		"begun again since": func(w *webtest.World) (*webtest.Browser, string) {
			b := begun(t, w)
			answer := w.Provider.Answer(viewer)
			b.Post(ssoStart, url.Values{})
			return b, answer
		},
		"used": func(w *webtest.World) (*webtest.Browser, string) {
			b := begun(t, w)
			answer := w.Provider.Answer(viewer)
			b.Get(answer)
			b.Post("/console/sign-out", url.Values{})
			return b, answer
		},
		"tried and failed": func(w *webtest.World) (*webtest.Browser, string) {
			b := begun(t, w)
			answer := w.Provider.Answer(viewer)
			cookie := b.Cookies()["sluice_session"]
			b.Get(ssoCallback + "?state=guess")
			b.Cookies()["sluice_session"] = cookie
			return b, answer
		},
	}
	for name, prepare := range tests {
		w := webtest.Start(t, webtest.SignOn)
		b, answer := prepare(w)
		if page := b.Get(answer); page.Code != http.StatusBadRequest || !page.Has("This sign-in has expired") {
			t.Errorf("%s: %d", name, page.Code)
		}
		if page := b.Get("/console"); page.Code != http.StatusSeeOther {
			t.Errorf("%s: lets in (%d)", name, page.Code)
		}
	}
}

func TestSSO_AnAnswerThatNamesItsProvider(t *testing.T) {
	w := webtest.Start(t, webtest.SignOn)
	for issuer, want := range map[string]int{webtest.Issuer: http.StatusSeeOther,
		"https://evil.example": http.StatusForbidden} {
		b := begun(t, w)
		if page := b.Get(w.Provider.Answer(webtest.Identity(access.RoleViewer)) + "&iss=" +
			url.QueryEscape(issuer)); page.Code != want {
			t.Errorf("%s: %d, want %d", issuer, page.Code, want)
		}
	}
}

func TestSSO_WhatTheProviderSaysIsText(t *testing.T) {
	w := webtest.Start(t, webtest.SignOn)
	b := begun(t, w)
	hostile := url.Values{"error": {"access_denied"},
		"error_description": {"<script>alert(1)</script>\r\n\x00" + strings.Repeat("x", 1000)}}
	if page := b.Get(ssoCallback + "?" + hostile.Encode()); page.Has("alert(1)") {
		t.Error("text that nobody's attempt led to is shown")
	}
	b = begun(t, w)
	hostile.Set("state", w.Provider.Last().State)
	page := b.Get(ssoCallback + "?" + hostile.Encode())
	if page.Code != http.StatusForbidden ||
		!page.Has("The provider rejected the sign-in", "access_denied: &lt;script&gt;alert(1)&lt;/script&gt;%0D%0A%00xx") ||
		page.Has(strings.Repeat("x", 301)) {
		t.Errorf("got %d", page.Code)
	}
}

func TestSSO_WhoHasNoRoleOrIsKeptOutStaysOut(t *testing.T) {
	nobody := webtest.Identity(access.RoleViewer)
	nobody.Role, nobody.Groups = "", []string{"sales", "secret-project"}
	ungrouped := nobody
	ungrouped.Groups = nil
	w := webtest.Start(t, webtest.SignOn)
	for id, want := range map[*access.Identity]string{&nobody: "none of them has a role here",
		&ungrouped: "names none of your groups"} {
		b := w.Browser()
		page := b.SignOn(*id)
		if page.Code != http.StatusForbidden || !page.Has("No role assigned", want, "groups") || page.Has("secret-project") ||
			page.Has("sales") {
			t.Errorf("%d: %.400s", page.Code, page.Body)
		}
		if page := b.Get("/console"); page.Code != http.StatusSeeOther {
			t.Errorf("lets in: %d", page.Code)
		}
	}
	if _, found := w.Users.Account(nobody); found {
		t.Error("there is an account for nobody")
	}
	member := webtest.Identity(access.RoleViewer)
	elsewhere := w.As(access.RoleViewer)
	w.Browser().SignOn(nobody) // lost the group since
	if page := elsewhere.Get("/console"); page.Code != http.StatusSeeOther {
		t.Errorf("the session of someone without a role goes on: %d", page.Code)
	}
	u, _ := w.Users.Account(member)
	w.Users.Change(u.Name, func(u *access.User) { u.Disabled = true })
	if page := w.Browser().SignOn(member); page.Code != http.StatusForbidden || !page.Has("Account disabled") {
		t.Errorf("disabled: %d", page.Code)
	}
}

func TestSSO_NeverTakesOverAnAccount(t *testing.T) {
	w := webtest.Start(t, webtest.SignOn)
	id := webtest.Identity(access.RoleViewer)
	id.Name = "ada"
	b := w.Browser()
	if page := b.SignOn(id); page.Code != http.StatusSeeOther {
		t.Fatal(page.Code)
	}
	if page := b.Get("/console"); !page.Has("ada-2", "viewer") {
		t.Error("not an account of its own")
	}
	if page := b.Get("/console/people/new"); page.Code != http.StatusForbidden {
		t.Errorf("may do what the admin of that name may: %d", page.Code)
	}
	other := id
	other.Issuer = "https://other.example"
	if page := w.Browser().SignOn(other); page.Code != http.StatusForbidden || !page.Has("Sign-in rejected") {
		t.Errorf("another issuer: %d", page.Code)
	}
}

func TestSSO_AwayIsAPageAndLeavesPasswordsAlone(t *testing.T) {
	w := webtest.Start(t, webtest.SignOn)
	halfWay := begun(t, w)
	answer := w.Provider.Answer(webtest.Identity(access.RoleViewer))
	w.Provider.Err = access.ErrProviderUnavailable
	fresh := w.Browser()
	for name, page := range map[string]webtest.Page{
		"start": fresh.Post(ssoStart, url.Values{}), "go": halfWay.Get("/console/sso/go"), "back": halfWay.Get(answer),
	} {
		if page.Code != http.StatusServiceUnavailable || !page.Has("The provider is unreachable", "/console/sign-in") {
			t.Errorf("%s: %d", name, page.Code)
		}
	}
	if page := fresh.Get("/console/sign-in"); page.Code != http.StatusOK {
		t.Errorf("the form: %d", page.Code)
	}
	if page := fresh.Post("/console/sign-in",
		webtest.Credentials("ada", webtest.Password)); page.Code != http.StatusSeeOther {
		t.Errorf("a password: %d", page.Code)
	}
	w.Provider.Err = nil
	b := begun(t, w)
	w.Provider.Err = access.ErrIdentity
	if page := b.Get(w.Provider.Answer(webtest.Identity(access.RoleViewer))); page.Code != http.StatusForbidden ||
		!page.Has("Sign-in rejected") {
		t.Errorf("refused: %d", page.Code)
	}
	w.Provider.Err = nil
	b = begun(t, w)
	w.Users.Err = rules.ErrUnavailable
	if page := b.Get(w.Provider.Answer(webtest.Identity(access.RoleViewer))); page.Code != http.StatusServiceUnavailable ||
		!page.Has("The rules database is unreachable") {
		t.Errorf("the database is away: %d", page.Code)
	}
}

func TestSSO_IsLimitedAndSuccessIsGivenBack(t *testing.T) {
	w := webtest.Start(t, webtest.SignOn)
	for i := range 50 {
		if page := w.Browser().SignOn(webtest.Identity(access.RoleViewer)); page.Code != http.StatusSeeOther {
			t.Fatalf("sign-in %d: %d", i+1, page.Code)
		}
	}
	last := webtest.Page{}
	for range 41 {
		last = w.Browser().Post(ssoStart, url.Values{})
	}
	if last.Code != http.StatusTooManyRequests || last.Header.Get("Retry-After") == "" || !last.Has("Too many attempts") {
		t.Errorf("the 41st that did not come back: %d", last.Code)
	}
	if page := w.Browser().Post("/console/sign-in",
		webtest.Credentials("ada", webtest.Password)); page.Code != http.StatusSeeOther {
		t.Errorf("passwords are limited with it: %d", page.Code)
	}
	w = webtest.Start(t, webtest.SignOn)
	for i := range 20 {
		if page := begun(t, w).Get(ssoCallback + "?code=guess&state=" +
			w.Provider.Last().State); page.Code != http.StatusForbidden {
			t.Fatalf("guess %d: %d", i+1, page.Code)
		}
	}
	if page := w.Browser().Post(ssoStart, url.Values{}); page.Code != http.StatusTooManyRequests {
		t.Errorf("coming back with nothing 20 times does not count: %d", page.Code)
	}
}

func TestSSO_AnIPv6NetworkIsLimitedInAll(t *testing.T) {
	w := webtest.Start(t, webtest.SignOn)
	for i := range 81 {
		b := w.Browser()
		b.Address = fmt.Sprintf("2001:db8:7:%x::1", i)
		page := b.Post(ssoStart, url.Values{})
		if refused := page.Code == http.StatusTooManyRequests; refused != (i == 80) {
			t.Fatalf("attempt %d: %d", i+1, page.Code)
		}
	}
}

func TestSSO_AnotherRoleEndsTheSessions(t *testing.T) {
	w := webtest.Start(t, webtest.SignOn)
	there := w.As(access.RoleAdmin)
	id := webtest.Identity(access.RoleAdmin)
	id.Role = access.RoleViewer
	here := w.Browser()
	here.SignOn(id)
	if page := there.Get("/console"); page.Code != http.StatusSeeOther {
		t.Errorf("the session of an admin goes on: %d", page.Code)
	}
	if page := here.Get("/console/people/new"); page.Code != http.StatusForbidden {
		t.Errorf("a viewer may: %d", page.Code)
	}
}

// with serves a world's console with other single sign-on.
func with(t *testing.T, w *webtest.World, sso *kit.SSO) {
	t.Helper()
	d := w.Deps(nil)
	d.SSO = sso
	if err := w.Serve(d); err != nil {
		t.Fatal(err)
	}
}

func TestSSO_SessionsEndWithTheProvider(t *testing.T) {
	w := webtest.Start(t, webtest.SignOn)
	elsewhere, local := w.As(access.RoleViewer), w.Browser()
	local.Post("/console/sign-in", webtest.Credentials("ada", webtest.Password))
	moved := *w.Deps(nil).SSO
	moved.Issuer = "https://other.example"
	for name, sso := range map[string]*kit.SSO{"moved": &moved, "off": nil} {
		with(t, w, sso)
		b := w.Browser()
		b.Cookies()["sluice_session"] = elsewhere.Cookies()["sluice_session"]
		if page := b.Get("/console"); page.Code != http.StatusSeeOther {
			t.Errorf("%s: the session goes on (%d)", name, page.Code)
		}
		if page := local.Get("/console"); page.Code != http.StatusOK {
			t.Errorf("%s: an account of sluice's own: %d", name, page.Code)
		}
	}
}

func TestSSO_AccountsHaveNoPasswordAndNoRoleToChange(t *testing.T) {
	w := webtest.Start(t, webtest.SignOn)
	w.As(access.RoleEditor)
	editor, _ := w.Users.Account(webtest.Identity(access.RoleEditor))
	b := w.Browser()
	b.Post("/console/sign-in", webtest.Credentials("ada", webtest.Password))
	path := "/console/people/4"
	if page := b.Get(path); !page.Has("single sign-on", "s-editor", webtest.Issuer, "Change the groups there") ||
		page.Has("Create invite link") || page.Has("Change role") {
		t.Errorf("the page: %d", page.Code)
	}
	for action, form := range map[string]url.Values{"/role": {"role": {"admin"}}, "/link": {}} {
		if page := b.Post(path+action, form); page.Code != http.StatusConflict || !page.Has("Managed by single sign-on") {
			t.Errorf("%s: %d", action, page.Code)
		}
	}
	if now, _ := w.Users.Account(webtest.Identity(access.RoleEditor)); now != editor {
		t.Errorf("it became %v", now)
	}
	for _, password := range []string{"", webtest.Password} {
		if page := w.Browser().Post("/console/sign-in",
			webtest.Credentials(editor.Name, password)); page.Code != http.StatusUnprocessableEntity || !page.Has(
			"Wrong name or password.") {
			t.Errorf("a password lets in: %d", page.Code)
		}
	}
	own := w.As(access.RoleEditor)
	if page := own.Get("/console/account"); !page.Has("no password here") {
		t.Error("the account's page does not say why there is no password")
	}
	if page := own.Post("/console/account/password",
		url.Values{"current": {""}, "password": {"a long enough one"},
			"repeat": {"a long enough one"}}); page.Code != http.StatusConflict {
		t.Errorf("a password is taken: %d", page.Code)
	}
	if page := b.Post(path+"/state", url.Values{"state": {"disabled"}}); page.Code != http.StatusSeeOther ||
		own.Get("/console").Code != http.StatusSeeOther {
		t.Errorf("keeping out: %d", page.Code)
	}
}
