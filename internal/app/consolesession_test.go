package app

import (
	"context"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/database"
	"sluice/internal/testenv"
	"sluice/web/webtest"
)

// heldSessions are sessions in a real database. While hold is set, the next commit
// of a request says that it is there and waits: the request is under way.
type heldSessions struct {
	*database.DB
	mu            sync.Mutex
	hold          bool
	there, resume chan struct{}
}

func (h *heldSessions) wait() {
	h.mu.Lock()
	held := h.hold
	h.hold = false
	h.mu.Unlock()
	if held {
		h.there <- struct{}{}
		<-h.resume
	}
}

// UpdateSession implements kit.Sessions.
func (h *heldSessions) UpdateSession(ctx context.Context, s access.Session) (bool, error) {
	h.wait()
	return h.DB.UpdateSession(context.WithoutCancel(ctx), s)
}

// ReplaceSession implements kit.Sessions.
func (h *heldSessions) ReplaceSession(ctx context.Context, old string, s access.Session) (bool, error) {
	h.wait()
	return h.DB.ReplaceSession(ctx, old, s)
}

// underWay starts a request and waits until it is about to commit its session. The
// channel gives its answer after resume.
func (h *heldSessions) underWay(t *testing.T, request func() webtest.Page) <-chan webtest.Page {
	t.Helper()
	h.mu.Lock()
	h.hold = true
	h.mu.Unlock()
	out := make(chan webtest.Page, 1)
	go func() { out <- request() }()
	select {
	case <-h.there:
	case page := <-out:
		t.Fatalf("answered %d without a commit: %s", page.Code, page.Body)
	}
	return out
}

func TestConsole_ASessionThatEndedWhileARequestWasUnderWayStaysEnded(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]func(*testing.T) string{
		"postgres": func(t *testing.T) string { return withSchema(t) },
		"sqlite": func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "sluice.db")
			testenv.SQLiteFrom(t, path, migrated)
			return path
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := webtest.New(webtest.Full)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Guard.Close()
			db, err := database.Open(t.Context(), database.Options{DSN: dsn(t), Now: w.Clock.Now, CallTimeout: 20 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			held := &heldSessions{DB: db, there: make(chan struct{}), resume: make(chan struct{})}
			d := w.Deps(nil)
			d.Sessions = held
			if err := w.Serve(d); err != nil {
				t.Fatal(err)
			}

			post := func(b *webtest.Browser) webtest.Page {
				return b.Post("/console/rules/1/state", url.Values{"to": {"off"}, "version": {"1"}})
			}
			poll := func(b *webtest.Browser) webtest.Page { return b.Get("/console/events?once=1") }
			confirmed := func(b *webtest.Browser) webtest.Page {
				return b.Post("/console/rules/2/delete", url.Values{"version": {"-"}, "confirm_password": {webtest.Password}})
			}
			signOut := func(b *webtest.Browser) { b.Post("/console/sign-out", url.Values{}) }
			elsewhere := func(*webtest.Browser) { endAll(t, db) }
			rotate := func(b *webtest.Browser) { confirmed(b) }
			for what, tt := range map[string]struct {
				request func(*webtest.Browser) webtest.Page
				end     func(*webtest.Browser)
				left    int
			}{
				"a POST against signing out":           {post, signOut, 0},
				"a POST against an end from elsewhere": {post, elsewhere, 0},
				"a POST against a rotation":            {post, rotate, 1},
				"a poll against signing out":           {poll, signOut, 0},
				"a poll against an end from elsewhere": {poll, elsewhere, 0},
				"a poll against a rotation":            {poll, rotate, 1},
				"a rotation against signing out":       {confirmed, signOut, 0},
				"a rotation against a rotation":        {confirmed, rotate, 1},
			} {
				t.Run(what, func(t *testing.T) {
					b := w.As(access.RoleAdmin)
					slow := w.Browser() // another tab of the same browser, which shares its cookies
					for name, value := range b.Cookies() {
						slow.Cookies()[name] = value
					}
					w.Clock.Add(11 * time.Minute) // the password counts no more, and the session wants to be touched
					stolen := w.Browser()
					for name, value := range b.Cookies() {
						stolen.Cookies()[name] = value
					}
					answer := held.underWay(t, func() webtest.Page { return tt.request(slow) })
					tt.end(b)
					held.resume <- struct{}{}
					page := <-answer
					if page.Code >= http.StatusInternalServerError {
						t.Errorf("the request that was under way was answered %d", page.Code)
					}
					if c := page.Header.Get("Set-Cookie"); c != "" {
						t.Errorf("it got the cookie %s; the browser may have a newer one", c)
					}
					if page := stolen.Get("/console"); page.Code != http.StatusSeeOther {
						t.Errorf("the session came back: %d", page.Code)
					}
					list, err := db.ListSessions(t.Context())
					if err != nil || len(list) != tt.left {
						t.Errorf("%d sessions are left, want %d (%v)", len(list), tt.left, err)
					}
					endAll(t, db)
				})
			}
		})
	}
}

// endAll ends every session.
func endAll(t *testing.T, db *database.DB) {
	t.Helper()
	list, err := db.ListSessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if err := db.DeleteSession(t.Context(), list[i].Token); err != nil {
			t.Fatal(err)
		}
	}
}
