package web_test

import (
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
		w := world(t, webtest.Full)
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
	want(t, b, "proved too long before", http.StatusServiceUnavailable)
}

func TestRecall_AccountsThatChangedAreForgotten(t *testing.T) {
	w := world(t, webtest.Full)
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
			w := world(t, webtest.Full)
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
