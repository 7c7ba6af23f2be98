package kit_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/limiter"
	"sluice/web/webtest"
)

// silent is a counter store that does not answer in time.
type silent struct{ limiter.Store }

func (silent) Do(ctx context.Context, _ *limiter.Request, _ *limiter.Result) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestGuard_MissingItsTimeIsAPageToTryAgain(t *testing.T) {
	t.Parallel()
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	d := w.Deps(nil)
	d.Guard, d.GuardLocal = silent{w.Guard}, silent{w.Guard}
	if err := w.Serve(d); err != nil {
		t.Fatal(err)
	}
	w.Clock.Add(11 * time.Minute) // so that acts need a confirmation
	visitor := w.Browser()
	for what, post := range map[string]func() webtest.Page{
		"signing in": func() webtest.Page {
			return visitor.Post("/console/sign-in", webtest.Credentials("ada", webtest.Password))
		},
		"confirming an act": func() webtest.Page {
			return b.Post("/console/people/1/sign-out", url.Values{"confirm_password": {webtest.Password}})
		},
		"changing the password": func() webtest.Page {
			return b.Post("/console/account/password", url.Values{"current": {webtest.Password}})
		},
	} {
		if page := post(); page.Code != http.StatusServiceUnavailable || page.Header.Get("Retry-After") != "1" ||
			!page.Has("could not be checked in time", "Try again in a second") {
			t.Errorf("%s: %d, Retry-After %q", what, page.Code, page.Header.Get("Retry-After"))
		}
	}
}
