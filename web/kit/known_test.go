package kit_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/web/webtest"
)

// besiege uses up the attempts at an account from all addresses.
func besiege(t *testing.T, w *webtest.World, name string) {
	t.Helper()
	for i := range 10 {
		for range 5 {
			b := w.Browser()
			b.Address = fmt.Sprintf("198.51.100.%d", i+1)
			b.Post("/console/sign-in", webtest.Credentials(name, "guess"))
		}
	}
	if page := w.Browser().Post("/console/sign-in",
		webtest.Credentials(name, webtest.Password)); page.Code != http.StatusTooManyRequests {
		t.Fatalf("50 guesses from ten addresses: %d", page.Code)
	}
}

// known is the name of the cookie of a browser that is known to an account, and its value.
func known(t *testing.T, b *webtest.Browser) (name, value string) {
	t.Helper()
	for name, value := range b.Cookies() {
		if strings.HasPrefix(name, "sluice_known_") {
			return name, value
		}
	}
	t.Fatal("signing in made no cookie of a known browser")
	return "", ""
}

func TestKnown_OthersWhoGuessDoNotLockTheOwnerOut(t *testing.T) {
	t.Parallel()
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	b.Post("/console/sign-out", url.Values{})
	name, value := known(t, b)
	besiege(t, w, "ada")
	for range 4 {
		page := b.Post("/console/sign-in", webtest.Credentials("ada", "typo"))
		if page.Code != http.StatusUnprocessableEntity {
			t.Fatalf("a wrong password in the owner's browser: %d", page.Code)
		}
	}
	if page := b.Post("/console/sign-in", webtest.Credentials("ada", webtest.Password)); page.Code != http.StatusSeeOther {
		t.Errorf("the owner after signing out: %d", page.Code)
	}
	thief := w.Browser()
	thief.Cookies()[name] = value
	for i := range 2 {
		page := thief.Post("/console/sign-in", webtest.Credentials("ada", "guess"))
		if want := []int{http.StatusUnprocessableEntity, http.StatusTooManyRequests}[i]; page.Code != want {
			t.Errorf("attempt %d with the cookie after four: %d, want %d", i+1, page.Code, want)
		}
	}
	if page := b.Post("/console/sign-in", webtest.Credentials("ada", webtest.Password)); page.Code != http.StatusSeeOther {
		t.Errorf("the owner, whose browser got another cookie: %d", page.Code)
	}
}

func TestKnown_OnlyAnUnchangedCookieOfTheAccountCounts(t *testing.T) {
	t.Parallel()
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	name, value := known(t, b)
	editor := w.As(access.RoleEditor)
	_, foreign := known(t, editor)
	besiege(t, w, "ada")
	try := func(value string) int {
		other := w.Browser()
		other.Cookies()[name] = value
		return other.Post("/console/sign-in", webtest.Credentials("ada", "guess")).Code
	}
	if got := try(value); got != http.StatusUnprocessableEntity {
		t.Fatalf("the cookie itself: %d", got)
	}
	expires, rest, _ := strings.Cut(value, ".")
	for what, forged := range map[string]string{
		"of another account": foreign, "with another nonce": expires + ".x" + rest, "that lasts longer": "9" + value,
		"without a proof": value[:strings.LastIndex(value, ".")+1], "empty": "", "of dots": "..",
	} {
		if got := try(forged); got != http.StatusTooManyRequests {
			t.Errorf("a cookie %s: %d", what, got)
		}
	}
	w.Users.Change("ada", func(u *access.User) { u.PasswordHash += " " })
	if got := try(value); got != http.StatusTooManyRequests {
		t.Errorf("a cookie from before a change of password: %d", got)
	}
}

func TestKnown_TheCookieEndsAfter90Days(t *testing.T) {
	t.Parallel()
	w := webtest.Start(t, webtest.Full)
	b := w.Browser()
	page := b.Post("/console/sign-in", webtest.Credentials("ada", webtest.Password))
	cookie := strings.Join(page.Header["Set-Cookie"], "\n")
	if !strings.Contains(cookie, "sluice_known_3=") || !strings.Contains(cookie,
		"; Path=/; Max-Age=7776000; HttpOnly; SameSite=Strict") {
		t.Fatalf("cookies %q", cookie)
	}
	w.Clock.Add(90*24*time.Hour - time.Minute)
	besiege(t, w, "ada")
	page = b.Post("/console/sign-in", webtest.Credentials("ada", "typo"))
	if page.Code != http.StatusUnprocessableEntity {
		t.Errorf("a minute before its end: %d", page.Code)
	}
	w.Clock.Add(time.Minute)
	if page := b.Post("/console/sign-in", webtest.Credentials("ada", "typo")); page.Code != http.StatusTooManyRequests {
		t.Errorf("at its end: %d", page.Code)
	}
}

func TestKnown_SignedInPeopleCountBySession(t *testing.T) {
	t.Parallel()
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	name, _ := known(t, b)
	delete(b.Cookies(), name)
	w.Clock.Add(11 * time.Minute) // so that acts need a confirmation
	besiege(t, w, "ada")
	if page := b.Post("/console/people/1/sign-out",
		url.Values{"confirm_password": {webtest.Password}}); page.Code != http.StatusSeeOther {
		t.Errorf("confirming an act: %d", page.Code)
	}
	change := url.Values{"current": {"wrong"}, "password": {"seven unrelated words"}, "repeat": {"seven unrelated words"}}
	for range 5 {
		if page := b.Post("/console/account/password", change); page.Code != http.StatusUnprocessableEntity {
			t.Fatalf("a wrong password: %d", page.Code)
		}
	}
	change.Set("current", webtest.Password)
	if page := b.Post("/console/account/password", change); page.Code != http.StatusTooManyRequests {
		t.Errorf("the sixth password in a session: %d", page.Code)
	}
	w.Clock.Add(11 * time.Minute)
	if page := b.Post("/console/account/password", change); page.Code != http.StatusSeeOther {
		t.Errorf("changing the password: %d", page.Code)
	}
	known(t, b)
}
