package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web"
	"sluice/web/webtest"
)

// TestRecall_StrangersEndNobodysSession: what anyone can post during an outage ends no remembered session.
func TestRecall_StrangersEndNobodysSession(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	w.Node.Confirmed = 0
	b, viewer := w.As(access.RoleAdmin), w.As(access.RoleViewer)
	b.Get("/console")
	viewer.Get("/console")
	w.Sessions.Err, w.Users.Err, w.Rules.Err = rules.ErrUnavailable, rules.ErrUnavailable, rules.ErrUnavailable
	stranger := w.Browser()
	for _, r := range web.Table() {
		if r.Method != http.MethodPost {
			continue
		}
		path := concrete(r.Path)
		for _, token := range []string{"", "of-no-session"} {
			if stranger.Cookies()["sluice_session"] = token; token == "" {
				delete(stranger.Cookies(), "sluice_session")
			}
			stranger.Post(path, url.Values{"token": {"x"}, "password": {"seven unrelated words"},
				"repeat": {"seven unrelated words"}})
			if page := b.Get("/console/rules"); page.Code != http.StatusOK {
				t.Fatalf("a stranger's POST %s with the cookie %q ended the session of an administrator: %d", path, token,
					page.Code)
			}
		}
		if path != "/console/sign-out" {
			viewer.Post(path, url.Values{})
		}
		if page := b.Get("/console/rules"); page.Code != http.StatusOK {
			t.Fatalf("a viewer's POST %s ended the session of an administrator: %d", path, page.Code)
		}
	}
}
