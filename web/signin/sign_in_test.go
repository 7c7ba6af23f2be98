package signin_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

func TestSignIn_OpensASessionUnderANewSecret(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.Browser()
	page := b.Post("/console/sign-in", webtest.Credentials("ada", webtest.Password))
	if page.Code != http.StatusSeeOther || page.Header.Get("Location") != "/console" {
		t.Fatalf("got %d to %q", page.Code, page.Header.Get("Location"))
	}
	for _, cookie := range page.Header["Set-Cookie"] {
		if !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=") {
			t.Errorf("cookie %q", cookie)
		}
	}
	first := b.Cookies()["sluice_session"]
	b.Post("/console/sign-in", webtest.Credentials("ada", webtest.Password))
	if b.Cookies()["sluice_session"] == first {
		t.Error("signing in again kept the session's secret")
	}
	if page := b.Get("/console"); page.Code != http.StatusOK || !page.Has("Overview", "ada", "admin") {
		t.Errorf("home: %d", page.Code)
	}
}

func TestSignIn_WrongNameAndWrongPasswordLookAlike(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Users.Change("vera", func(u *access.User) { u.Disabled = true })
	var bodies []string
	for _, c := range []url.Values{webtest.Credentials("ada", "wrong"), webtest.Credentials("nobody", "wrong"),
		webtest.Credentials("vera", webtest.Password), webtest.Credentials("", "")} {
		page := w.Browser().Post("/console/sign-in", c)
		if page.Code != http.StatusUnprocessableEntity || !page.Has("Wrong name or password.") ||
			page.Header.Get("Set-Cookie") != "" {
			t.Errorf("%v: got %d, cookie %q", c, page.Code, page.Header.Get("Set-Cookie"))
		}
		bodies = append(bodies, strings.ReplaceAll(page.Body, c.Get("name"), ""))
	}
	if page := w.Browser().Post("/console/sign-in", webtest.Credentials("ada", "wrong")); !page.Has(`value="ada"`) ||
		page.Has("wrong\"") {
		t.Error("the form does not keep the name, or keeps the password")
	}
	if len(bodies[0]) == 0 {
		t.Error("no page")
	}
}

func TestSignIn_GuessingIsLimited(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.Browser()
	for i := range 5 {
		if page := b.Post("/console/sign-in",
			webtest.Credentials("ada", "guess")); page.Code != http.StatusUnprocessableEntity {
			t.Fatalf("attempt %d: %d", i+1, page.Code)
		}
	}
	page := b.Post("/console/sign-in", webtest.Credentials("ada", webtest.Password))
	if page.Code != http.StatusTooManyRequests || page.Header.Get("Retry-After") == "" || !page.Has("Too many attempts") {
		t.Fatalf("the sixth, with the right password: %d", page.Code)
	}
	if page := b.Post("/console/sign-in",
		webtest.Credentials("edda", webtest.Password)); page.Code != http.StatusSeeOther {
		t.Errorf("another account from the same address: %d", page.Code)
	}
	w.Clock.Add(11 * time.Minute)
	if page := b.Post("/console/sign-in", webtest.Credentials("ada", webtest.Password)); page.Code != http.StatusSeeOther {
		t.Errorf("later: %d", page.Code)
	}
}

// TestSignIn_NoFiveMinutesHaveMoreThanFiveGuesses, wherever they begin.
func TestSignIn_NoFiveMinutesHaveMoreThanFiveGuesses(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	const window = 5 * time.Minute
	w.Clock.Add(window - w.Clock.Now().Sub(w.Clock.Now().Truncate(window)) - time.Second) // before the end of a fixed one
	var passed []time.Duration
	for at := time.Duration(0); at < 20*time.Minute; at += 20 * time.Second {
		for w.Browser().Post("/console/sign-in",
			webtest.Credentials("ada", "guess")).Code == http.StatusUnprocessableEntity {
			passed = append(passed, at)
		}
		w.Clock.Add(20 * time.Second)
	}
	for i := 5; i < len(passed); i++ {
		if length := passed[i] - passed[i-5]; length < window {
			t.Fatalf("six guesses within %v: %v", length, passed)
		}
	}
	if len(passed) != 20 {
		t.Errorf("%d guesses passed in 20 minutes, want 20", len(passed))
	}
}

// TestSignIn_AttemptsUnderWayMakeNobodyWaitLong: right ones are given back in a moment, and only wrong ones count.
func TestSignIn_AttemptsUnderWayMakeNobodyWaitLong(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	entered, leave := make(chan struct{}, 10), make(chan struct{})
	w.Passwords.Entered, w.Passwords.Leave = entered, leave
	var right sync.WaitGroup
	for range 5 {
		right.Go(func() { w.Browser().Post("/console/sign-in", webtest.Credentials("ada", webtest.Password)) })
	}
	for range 5 {
		<-entered
	}
	page := w.Browser().Post("/console/sign-in", webtest.Credentials("ada", webtest.Password))
	if page.Code != http.StatusTooManyRequests || page.Header.Get("Retry-After") != "1" ||
		!page.Has("Try again in 1 s.") {
		t.Errorf("beside five under way: %d, Retry-After %q", page.Code, page.Header.Get("Retry-After"))
	}
	close(leave)
	right.Wait()
	for i := range 5 {
		page := w.Browser().Post("/console/sign-in", webtest.Credentials("ada", "guess"))
		if page.Code != http.StatusUnprocessableEntity {
			t.Errorf("wrong attempt %d after right ones: %d", i+1, page.Code)
		}
	}
	page = w.Browser().Post("/console/sign-in", webtest.Credentials("ada", webtest.Password))
	if wait, _ := strconv.Atoi(page.Header.Get("Retry-After")); page.Code != http.StatusTooManyRequests || wait < 60 {
		t.Errorf("after five wrong ones: %d, Retry-After %q", page.Code, page.Header.Get("Retry-After"))
	}
}

// refusedAfter is how many guesses are refused for their password before one is
// refused for being one too many; most is how many are made.
func refusedAfter(w *webtest.World, most int, guess func(i int) (address, name string)) int {
	for i := range most {
		b := w.Browser()
		address, name := guess(i)
		b.Address = address
		if page := b.Post("/console/sign-in", webtest.Credentials(name, "guess")); page.Code == http.StatusTooManyRequests {
			return i
		}
	}
	return most
}

func TestSignIn_OneAddressAndOneAccountAreLimitedInAll(t *testing.T) {
	sprayed := refusedAfter(webtest.Start(t, webtest.Full), 40, func(i int) (address, name string) {
		return fmt.Sprintf("2001:db8::%x", i+1), fmt.Sprintf("user%d", i)
	})
	if sprayed != 30 {
		t.Errorf("one network tried %d accounts, want 30", sprayed)
	}
	spread := refusedAfter(webtest.Start(t, webtest.Full), 70, func(i int) (address, name string) {
		return fmt.Sprintf("2001:db8:7:%x::1", i), fmt.Sprintf("user%d", i)
	})
	if spread != 60 {
		t.Errorf("one IPv6 network of /48 tried %d accounts, want 60", spread)
	}
	translated := refusedAfter(webtest.Start(t, webtest.Full), 40, func(i int) (address, name string) {
		return fmt.Sprintf("64:ff9b::198.51.100.%d", i+1), fmt.Sprintf("user%d", i)
	})
	if translated != 40 {
		t.Errorf("40 clients behind NAT64 had %d attempts, want one for each", translated)
	}
	besieged := refusedAfter(webtest.Start(t, webtest.Full), 60,
		func(i int) (address, name string) { return fmt.Sprintf("198.51.100.%d", i+1), "ada" })
	if besieged != 50 {
		t.Errorf("many addresses tried %d passwords of one account, want 50", besieged)
	}
}

func TestSignIn_WaitingAsLongAsSaidIsEnough(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Clock.Add(300 * time.Millisecond) // so that the wait is no whole number of seconds
	b := w.Browser()
	var page webtest.Page
	for range 6 {
		page = b.Post("/console/sign-in", webtest.Credentials("ada", "guess"))
	}
	wait, err := strconv.Atoi(page.Header.Get("Retry-After"))
	if err != nil || page.Code != http.StatusTooManyRequests {
		t.Fatalf("%d, Retry-After %q", page.Code, page.Header.Get("Retry-After"))
	}
	w.Clock.Add(time.Duration(wait-1) * time.Second)
	if page := b.Post("/console/sign-in",
		webtest.Credentials("ada", webtest.Password)); page.Code != http.StatusTooManyRequests {
		t.Errorf("a second too early: %d", page.Code)
	}
	w.Clock.Add(time.Second)
	if page := b.Post("/console/sign-in", webtest.Credentials("ada", webtest.Password)); page.Code != http.StatusSeeOther {
		t.Errorf("after %d s: %d", wait, page.Code)
	}
}

func TestSignIn_SuccessDoesNotCountAsAnAttempt(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	for i := range 8 {
		if page := w.Browser().Post("/console/sign-in",
			webtest.Credentials("ada", webtest.Password)); page.Code != http.StatusSeeOther {
			t.Fatalf("sign-in %d: %d", i+1, page.Code)
		}
	}
}

func TestSignIn_LeadsBackIntoTheConsoleOnly(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	for next, want := range map[string]string{
		"/console/rules?q=a": "/console/rules?q=a", "https://evil.example/console": "/console", "//evil.example": "/console",
		"/console//evil.example": "/console", "/\\evil.example": "/console", "/consolex": "/console",
		"javascript:alert(1)": "/console",
		"/console/../x":       "/console", "/console\r\nX: y": "/console", "": "/console",
	} {
		form := webtest.Credentials("ada", webtest.Password)
		form.Set("next", next)
		if page := w.Browser().Post("/console/sign-in", form); page.Header.Get("Location") != want {
			t.Errorf("next %q led to %q, want %q", next, page.Header.Get("Location"), want)
		}
	}
	if page := w.Browser().Get("/console/rules?q=a"); page.Header.Get(
		"Location") != "/console/sign-in?next=%2Fconsole%2Frules%3Fq%3Da" {
		t.Errorf("the way to sign in is %q", page.Header.Get("Location"))
	}
}

func TestSession_EndsWithTheAccountAndTheTime(t *testing.T) {
	tests := map[string]func(*webtest.World, *webtest.Browser){
		"new password": func(w *webtest.World, _ *webtest.Browser) { w.Users.Change("ada", func(u *access.User) {}) },
		"disabled": func(w *webtest.World, _ *webtest.Browser) {
			w.Users.Change("ada", func(u *access.User) { u.Disabled = true })
		},
		"signed out": func(_ *webtest.World, b *webtest.Browser) { b.Post("/console/sign-out", url.Values{}) },
	}
	for name, end := range tests {
		w := webtest.Start(t, webtest.Full)
		b := w.As(access.RoleAdmin)
		stolen := w.Browser()
		stolen.Cookies()["sluice_session"] = b.Cookies()["sluice_session"]
		if page := stolen.Get("/console"); page.Code != http.StatusOK {
			t.Fatalf("%s: before: %d", name, page.Code)
		}
		end(w, b)
		if page := stolen.Get("/console"); page.Code != http.StatusSeeOther {
			t.Errorf("%s: the session still lets in (%d)", name, page.Code)
		}
	}
}

func TestSession_StoreAwayIsAPageThatSaysSo(t *testing.T) {
	for name, tt := range map[string]struct {
		fails func(*webtest.World)
		want  int
	}{
		"sessions": {func(w *webtest.World) { w.Sessions.Err = rules.ErrUnavailable }, http.StatusServiceUnavailable},
		"users":    {func(w *webtest.World) { w.Users.Err = rules.ErrUnavailable }, http.StatusServiceUnavailable},
		"rules":    {func(w *webtest.World) { w.Rules.Err = rules.ErrUnavailable }, http.StatusOK},
	} {
		w := webtest.Start(t, webtest.Full)
		b := w.As(access.RoleAdmin)
		tt.fails(w)
		if page := b.Get("/console"); page.Code != tt.want || !page.Has("The rules database is unreachable") {
			t.Errorf("%s: got %d", name, page.Code)
		}
	}
}

func TestWelcome_MakesTheFirstAdminOnce(t *testing.T) {
	w := webtest.Start(t, webtest.Fresh)
	link := "/console/welcome?token=" + w.WelcomeSecret
	if page := w.Browser().Get("/console/sign-in"); !page.Has("No account exists yet") {
		t.Error("the form to sign in does not say what to do")
	}
	for range 2 { // looking does not use it up
		if page := w.Browser().Get(link); page.Code != http.StatusOK {
			t.Fatalf("the link: %d", page.Code)
		}
	}
	form := url.Values{"token": {w.WelcomeSecret}, "name": {"grace"}, "password": {"long enough for this"},
		"repeat": {"long enough for this"}}
	for field, bad := range map[string]string{"password": "short", "repeat": "something else", "name": ""} {
		spoilt := url.Values{}
		for k := range form {
			spoilt.Set(k, form.Get(k))
		}
		spoilt.Set(field, bad)
		if page := w.Browser().Post("/console/welcome", spoilt); page.Code != http.StatusUnprocessableEntity ||
			!page.Has(`aria-invalid="true"`) {
			t.Errorf("bad %s: %d", field, page.Code)
		}
	}
	b := w.Browser()
	if page := b.Post("/console/welcome", form); page.Code != http.StatusSeeOther {
		t.Fatalf("got %d", page.Code)
	}
	if page := b.Get("/console"); page.Code != http.StatusOK || !page.Has("Welcome, grace") {
		t.Errorf("home: %d", page.Code)
	}
	if page := b.Get("/console"); page.Has("Welcome, grace") {
		t.Error("the message is shown twice")
	}
	if page := w.Browser().Get(link); page.Code != http.StatusForbidden {
		t.Errorf("the link works again: %d", page.Code)
	}
	if page := w.Browser().Post("/console/welcome", form); page.Code != http.StatusForbidden {
		t.Errorf("the form works again: %d", page.Code)
	}
}

func TestWelcome_EndsAfterAnHourAndNeedsTheSecret(t *testing.T) {
	w := webtest.Start(t, webtest.Fresh)
	for _, wrong := range []string{"", "x", w.WelcomeSecret + "x", w.WelcomeSecret[1:]} {
		if page := w.Browser().Get("/console/welcome?token=" + wrong); page.Code != http.StatusForbidden {
			t.Errorf("secret %q: %d", wrong, page.Code)
		}
	}
	w.Clock.Add(time.Hour)
	if page := w.Browser().Get("/console/welcome?token=" + w.WelcomeSecret); page.Code != http.StatusForbidden {
		t.Errorf("an hour later: %d", page.Code)
	}
}
