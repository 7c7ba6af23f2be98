package kit_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

func TestSession_LookingAtPagesWritesAtMostOnceAMinute(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	look := func() {
		for _, path := range []string{"/console", "/console/rules", "/console/rules/1", "/console/events?once=1"} {
			if page := b.Get(path); page.Code != http.StatusOK {
				t.Fatalf("%s: %d", path, page.Code)
			}
		}
	}
	before := w.Sessions.Writes
	look()
	if n := w.Sessions.Writes - before; n != 0 {
		t.Errorf("%d writes right after signing in", n)
	}
	w.Clock.Add(time.Minute)
	look()
	if n := w.Sessions.Writes - before; n != 1 {
		t.Errorf("%d writes a minute later, want 1", n)
	}
	for range 30 { // 12 hours without a page end it, 15 hours with pages do not
		w.Clock.Add(30 * time.Minute)
		look()
	}
	w.Clock.Add(12 * time.Hour)
	if page := b.Get("/console"); page.Code != http.StatusSeeOther {
		t.Errorf("after 12 idle hours: %d", page.Code)
	}
}

func TestReauth_ARefusedActLeavesTheVisitorSignedIn(t *testing.T) {
	for name, tt := range map[string]struct {
		act  string
		form url.Values
		fail error
		want int
	}{
		"409": {"/console/rules/1/delete", url.Values{"version": {"99"}}, nil, http.StatusConflict},
		"422": {"/console/tokens/new", url.Values{"name": {""}}, nil, http.StatusUnprocessableEntity},
		"503": {"/console/rules/1/delete", url.Values{"version": {"1"}}, rules.ErrUnavailable, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w := webtest.Start(t, webtest.Full)
			b := w.As(access.RoleAdmin)
			secret := b.Cookies()["sluice_session"]
			w.Clock.Add(11 * time.Minute)
			if tt.want == http.StatusServiceUnavailable {
				w.Rules.Err = tt.fail
			}
			tt.form.Set("confirm_password", webtest.Password)
			if page := b.Post(tt.act, tt.form); page.Code != tt.want {
				t.Fatalf("the act: %d\n%s", page.Code, page.Body)
			}
			w.Rules.Err = nil
			if b.Cookies()["sluice_session"] == secret {
				t.Error("the session kept its secret")
			}
			if page := b.Get("/console"); page.Code != http.StatusOK {
				t.Errorf("afterwards: %d", page.Code)
			}
			tt.form.Del("confirm_password")
			if page := b.Post(tt.act, tt.form); page.Has("Confirm: ") {
				t.Error("the password that was just given does not count")
			}
		})
	}
}

// A confirmation gives the session another secret. Signing out with the secret of
// before ends the session anyway, whichever of the two comes first.
func TestSignOut_BesideAConfirmationEndsTheSession(t *testing.T) {
	for _, name := range []string{"confirmed before signing out", "confirmed while signing out"} {
		t.Run(name, func(t *testing.T) {
			w := webtest.Start(t, webtest.Full)
			b, other := w.As(access.RoleAdmin), w.Browser()
			other.Cookies()["sluice_session"] = b.Cookies()["sluice_session"]
			w.Clock.Add(11 * time.Minute)
			confirm := func() {
				b.Post("/console/rules/1/delete", url.Values{"version": {"99"}, "confirm_password": {webtest.Password}})
			}
			if name == "confirmed before signing out" {
				confirm()
			} else {
				w.Sessions.BeforeDelete = confirm
			}
			other.Post("/console/sign-out", url.Values{})
			w.Sessions.BeforeDelete = nil
			if b.Cookies()["sluice_session"] == "" {
				t.Fatal("the confirmation gave no new secret")
			}
			if page := b.Get("/console"); page.Code != http.StatusSeeOther {
				t.Errorf("the session under its new secret: %d, want a way to the sign-in", page.Code)
			}
		})
	}
}
