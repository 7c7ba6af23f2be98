package kit_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

func TestRecall_WhoWasHereLatelyMayReadForAnHour(t *testing.T) {
	begin := func(t *testing.T, idle time.Duration) (*webtest.World, *webtest.Browser) {
		w := webtest.Start(t, webtest.Full)
		w.Node.Confirmed = 0
		b := w.As(access.RoleAdmin)
		b.Get("/console")
		w.Clock.Add(idle)
		w.Sessions.Err, w.Users.Err, w.Rules.Err = rules.ErrUnavailable, rules.ErrUnavailable, rules.ErrUnavailable
		return w, b
	}
	want := func(t *testing.T, b *webtest.Browser, when string, code int) {
		t.Helper()
		if page := b.Get("/console/rules"); page.Code != code {
			t.Errorf("%s: %d, want %d", when, page.Code, code)
		}
	}
	w, b := begin(t, 15*time.Minute)
	want(t, b, "at once", http.StatusOK)
	w.Clock.Add(59 * time.Minute)
	want(t, b, "59 minutes later", http.StatusOK)
	w.Clock.Add(time.Minute)
	want(t, b, "an hour later", http.StatusServiceUnavailable)
	w.Sessions.Err, w.Users.Err, w.Rules.Err = nil, nil, nil
	w.Clock.Add(time.Minute)
	want(t, b, "afterwards", http.StatusOK)

	_, b = begin(t, 15*time.Minute+time.Second)
	want(t, b, "verified too long before", http.StatusServiceUnavailable)
}

func TestRecall_AccountsThatChangedAreForgotten(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Node.Confirmed = 0
	admin, viewer := w.As(access.RoleAdmin), w.As(access.RoleViewer)
	viewer.Get("/console")
	if page := admin.Post("/console/people/3/sign-out", url.Values{}); page.Code != http.StatusSeeOther {
		t.Fatalf("signing someone out: %d", page.Code)
	}
	w.Sessions.Err, w.Users.Err = rules.ErrUnavailable, rules.ErrUnavailable
	if page := viewer.Get("/console"); page.Code != http.StatusServiceUnavailable {
		t.Errorf("an ended session came back: %d", page.Code)
	}
}

func TestRecall_WhatThisNodeSawEndedElsewhereStaysEnded(t *testing.T) {
	for name, end := range map[string]func(*webtest.World){
		"the session": func(w *webtest.World) { w.Sessions.EndAll() },
		"the account": func(w *webtest.World) {
			w.Users.Change(webtest.Names[access.RoleViewer], func(u *access.User) { u.Role = access.RoleViewer })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := webtest.Start(t, webtest.Full)
			w.Node.Confirmed = 0
			b := w.As(access.RoleViewer)
			b.Get("/console")
			end(w)
			if page := b.Get("/console"); page.Code != http.StatusSeeOther {
				t.Fatalf("after its end: %d, want a redirection to the sign-in", page.Code)
			}
			w.Sessions.Err, w.Users.Err = rules.ErrUnavailable, rules.ErrUnavailable
			if page := b.Get("/console"); page.Code != http.StatusServiceUnavailable {
				t.Errorf("in the outage: %d, want 503", page.Code)
			}
		})
	}
}

// A request that was under way while its visitor signed out does not make the node
// remember the session.
func TestRecall_SigningOutForgetsRequestsUnderWay(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Node.Confirmed = 0
	b := w.As(access.RoleViewer)
	secret := b.Cookies()["sluice_session"]
	other := w.Browser()
	other.Cookies()["sluice_session"] = secret
	w.Sessions.BeforeDelete = func() {
		if page := other.Get("/console"); page.Code != http.StatusOK {
			t.Errorf("a request before the session was deleted: %d", page.Code)
		}
	}
	b.Post("/console/sign-out", url.Values{})
	w.Sessions.BeforeDelete = nil
	w.Sessions.Err, w.Users.Err = rules.ErrUnavailable, rules.ErrUnavailable
	other.Cookies()["sluice_session"] = secret
	if page := other.Get("/console"); page.Code != http.StatusServiceUnavailable {
		t.Errorf("a session that was signed out came back: %d", page.Code)
	}
}

// Signing in counts also where the visit before it was by a session that was only
// remembered.
func TestRecall_SigningInWithADatabaseThatIsBackCounts(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Node.Confirmed = 0
	b := w.As(access.RoleViewer)
	b.Get("/console")
	w.Sessions.Err, w.Users.Err = rules.ErrUnavailable, rules.ErrUnavailable
	b.Get("/console")
	w.Sessions.Err, w.Users.Err = nil, nil // within the second in which the database is not asked again
	page := b.Post("/console/sign-in", url.Values{"name": {webtest.Names[access.RoleAdmin]},
		"password": {webtest.Password}})
	if page.Code != http.StatusSeeOther {
		t.Fatalf("signing in: %d", page.Code)
	}
	w.Clock.Add(2 * time.Second)
	if page := b.Get("/console/people/new"); page.Code != http.StatusOK {
		t.Errorf("signed in as an admin, and still someone else: %d", page.Code)
	}
}

// A session that was signed out during an outage ends everywhere once the database
// is back, whoever comes first.
func TestRecall_SigningOutIsMadeUpForAfterwards(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Node.Confirmed = 0
	b, other := w.As(access.RoleViewer), w.As(access.RoleAdmin)
	b.Get("/console")
	before := w.Sessions.Len()
	w.Sessions.Err, w.Users.Err = rules.ErrUnavailable, rules.ErrUnavailable
	if page := b.Post("/console/sign-out", url.Values{}); page.Code != http.StatusServiceUnavailable {
		t.Fatalf("signing out: %d", page.Code)
	}
	w.Sessions.Err, w.Users.Err = nil, nil
	w.Clock.Add(2 * time.Second)
	other.Get("/console")
	if n := w.Sessions.Len(); n != before-1 {
		t.Errorf("%d sessions, want %d", n, before-1)
	}
}

// While a large import holds the embedded database, somebody who signs out does not
// make the console read-only for the others.
func TestRecall_ALargeImportIsNoOutage(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Node.Confirmed = 0
	b, other := w.As(access.RoleViewer), w.As(access.RoleAdmin)
	b.Get("/console")
	other.Get("/console")
	before := w.Sessions.Len()
	w.Sessions.DeleteErr = fmt.Errorf("%w: %w", rules.ErrBusy, rules.ErrUnavailable)
	if page := b.Post("/console/sign-out", url.Values{}); page.Code != http.StatusServiceUnavailable ||
		!page.Has("Another change, such as a large import, is in progress") {
		t.Fatalf("signing out: %d\n%s", page.Code, page.Body)
	}
	for range 3 {
		if page := other.Get("/console/rules"); page.Code != http.StatusOK || page.Has("The rules database is unreachable") {
			t.Errorf("a colleague's page: %d\n%s", page.Code, page.Body)
		}
	}
	w.Sessions.DeleteErr = nil
	w.Clock.Add(time.Minute)
	other.Get("/console")
	if n := w.Sessions.Len(); n != before-1 {
		t.Errorf("%d sessions afterwards, want %d", n, before-1)
	}
}
