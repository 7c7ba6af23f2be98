package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/access"
	"sluice/web/webtest"
)

const busyText = "Too many passwords are being checked right now. Nothing was changed."

// isBusy checks that a page refuses for now, shows these texts and no password.
func isBusy(t *testing.T, what string, page webtest.Page, shows ...string) {
	t.Helper()
	if page.Code != http.StatusServiceUnavailable || page.Header.Get("Retry-After") != "1" ||
		!page.Has(append(shows, busyText, "</html>")...) {
		t.Errorf("%s: %d, Retry-After %q\n%s", what, page.Code, page.Header.Get("Retry-After"), page.Body)
	}
	if page.Has(webtest.Password) || page.Has("long enough for this") ||
		page.Header.Get("Set-Cookie") != "" && strings.Contains(page.Header.Get("Set-Cookie"), "sluice_session=") {
		t.Errorf("%s: a password is shown, or a session begun", what)
	}
}

func TestBusy_SigningInKeepsTheNameAndDoesNotCount(t *testing.T) {
	w := world(t, webtest.Full)
	w.Passwords.Busy = map[access.Lane]bool{access.LaneStrangers: true}
	for range 8 { // more than may be wrong
		isBusy(t, "known", w.Browser().Post("/console/sign-in", webtest.Credentials("ada", webtest.Password)), `value="ada"`)
		isBusy(t, "unknown", w.Browser().Post("/console/sign-in", webtest.Credentials("nobody", webtest.Password)),
			`value="nobody"`)
	}
	w.Passwords.Busy = nil
	if page := w.Browser().Post("/console/sign-in",
		webtest.Credentials("ada", webtest.Password)); page.Code != http.StatusSeeOther {
		t.Errorf("afterwards: %d", page.Code)
	}
}

// On a machine that is short of CPU, no turn at hashing comes before the server closes the connection.
func TestBusy_NoTurnInTimeIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, first := world(t, webtest.Full), world(t, webtest.Fresh)
		w.Passwords.Stuck, first.Passwords.Stuck = true, true
		const fresh = "long enough for this"
		for what, post := range map[string]func() webtest.Page{
			"signing in": func() webtest.Page {
				return w.Browser().Post("/console/sign-in", webtest.Credentials("ada", webtest.Password))
			},
			"a new password": func() webtest.Page {
				return first.Browser().Post("/console/welcome", url.Values{"token": {first.WelcomeSecret}, "name": {"grace"},
					"password": {fresh}, "repeat": {fresh}})
			},
		} {
			began := time.Now()
			isBusy(t, what, post())
			if wait := time.Since(began); wait > 3*time.Second { // of the bubble's clock
				t.Errorf("%s: answered after %s", what, wait)
			}
		}
	})
}

func TestBusy_StrangersDoNotKeepPeopleFromConfirming(t *testing.T) {
	w := world(t, webtest.Full)
	w.Handler = w.Server.WithErase()
	b := w.As(access.RoleAdmin)
	w.Clock.Add(11 * time.Minute)
	form := func() url.Values { return url.Values{"what": {"everything"}, "confirm_password": {webtest.Password}} }
	w.Passwords.Busy = map[access.Lane]bool{access.LaneSignedIn: true}
	isBusy(t, "confirming", b.Post("/console/erase", form()), `name="what" value="everything"`)
	w.Passwords.Busy = map[access.Lane]bool{access.LaneStrangers: true}
	if page := b.Post("/console/erase", form()); page.Code != http.StatusSeeOther {
		t.Errorf("while strangers wait: %d", page.Code)
	}
}

func TestBusy_NewPasswordsAreAskedForAgain(t *testing.T) {
	const fresh = "long enough for this"
	all := map[access.Lane]bool{access.LaneStrangers: true, access.LaneSignedIn: true}
	w := world(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	_, token, _ := strings.Cut(b.Post("/console/people/new",
		url.Values{"name": {"ivy"}, "role": {"viewer"}, "by": {"link"}}).Body, "/console/invite?token=")
	token = token[:43]
	tests := []struct {
		what, path string
		by         *webtest.Browser
		form       url.Values
		shows      string
	}{
		{"account", "/console/account/password", b,
			url.Values{"current": {webtest.Password}, "password": {fresh}, "repeat": {fresh}}, "Your account"},
		{"person", "/console/people/new", b,
			url.Values{"name": {"grace"}, "role": {"editor"}, "by": {"password"}, "password": {fresh}}, `value="grace"`},
		{"invite", "/console/invite", w.Browser(), url.Values{"token": {token}, "password": {fresh}, "repeat": {fresh}},
			"Welcome, ivy"},
	}
	w.Passwords.Busy = all
	for _, tt := range tests {
		isBusy(t, tt.what, tt.by.Post(tt.path, tt.form), tt.shows)
	}
	w.Passwords.Busy = nil
	for _, tt := range tests {
		if page := tt.by.Post(tt.path, tt.form); page.Code != http.StatusSeeOther {
			t.Errorf("%s, afterwards: %d", tt.what, page.Code)
		}
	}
	first := world(t, webtest.Fresh)
	form := url.Values{"token": {first.WelcomeSecret}, "name": {"grace"}, "password": {fresh}, "repeat": {fresh}}
	first.Passwords.Busy = all
	isBusy(t, "welcome", first.Browser().Post("/console/welcome", form), `value="grace"`)
	first.Passwords.Busy = nil
	if page := first.Browser().Post("/console/welcome", form); page.Code != http.StatusSeeOther {
		t.Errorf("welcome, afterwards: %d", page.Code)
	}
}
