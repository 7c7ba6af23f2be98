package web_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/web/webtest"
)

func TestReauth_AsksOnceMoreAndCarriesTheFormAlong(t *testing.T) {
	w := world(t, webtest.Full)
	w.Handler = w.Server.WithErase()
	b := w.As(access.RoleAdmin)
	form := func(extra ...string) url.Values {
		f := url.Values{"what": {`everything "quoted"`}}
		for _, password := range extra {
			f.Set("confirm_password", password)
		}
		return f
	}
	done := func(when string, page webtest.Page) {
		t.Helper()
		if home := b.Get("/console"); page.Code != http.StatusSeeOther ||
			!home.Has("erased everything &#34;quoted&#34;, 1 fields") {
			t.Errorf("%s: %d", when, page.Code)
		}
	}
	done("just signed in", b.Post("/console/erase", form()))
	w.Clock.Add(11 * time.Minute)
	page := b.Post("/console/erase", form())
	if page.Code != http.StatusUnprocessableEntity ||
		!page.Has("Confirm it is you", `name="what" value="everything &#34;quoted&#34;"`, `action="/console/erase"`) {
		t.Fatalf("later: %d\n%s", page.Code, page.Body)
	}
	if page := b.Post("/console/erase", form("wrong")); page.Code != http.StatusUnprocessableEntity ||
		!page.Has("Wrong name or password.") || page.Has("wrong\"") {
		t.Errorf("wrong password: %d", page.Code)
	}
	secret := b.Cookies()["sluice_session"]
	done("with the password", b.Post("/console/erase", form(webtest.Password)))
	if b.Cookies()["sluice_session"] == secret {
		t.Error("the session kept its secret")
	}
	done("right after", b.Post("/console/erase", form()))
	w.Clock.Add(11 * time.Minute)
	for range 5 {
		b.Post("/console/erase", form("guess"))
	}
	if page := b.Post("/console/erase", form(webtest.Password)); page.Code != http.StatusTooManyRequests {
		t.Errorf("guessing is not limited: %d", page.Code)
	}
}

func TestPanic_IsOnePageAndSaysNothingInside(t *testing.T) {
	w := world(t, webtest.Full)
	w.Handler = w.Server.WithErase()
	page := w.Browser().Get("/console/panic")
	if page.Code != http.StatusInternalServerError || !page.Has("Internal error", "</html>") || page.Has("on purpose") {
		t.Errorf("got %d", page.Code)
	}
}
