// Package kit holds what every handler of the console needs: the visit with its session and page frame, the limits on
// sign-in attempts, error pages, forms and files, and streams of live data. Areas build their Pages on a Kit and return
// their Routes; the kit authorizes a request before it calls a handler.
package kit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/labstack/echo/v4"

	"sluice/internal/attention"
	"sluice/rules"
	"sluice/web/static"
)

// Kit serves the routes of all areas. It is safe for concurrent use and owns no
// goroutine; time limits on connections are the http.Server's.
type Kit struct {
	Deps
	// Attention finds who is denied unusually.
	Attention *attention.Reader
	sessions  *scs.SessionManager
	stored    *sessionStore
	// origins rejects requests that a browser sends on behalf of another site.
	origins *http.CrossOriginProtection
	// underWay are the attempts to sign in, or to confirm an act, that have not ended.
	underWay attempts
	// Streams counts open streams of live data.
	Streams atomic.Int64
}

// New creates a Kit. It fails only if something required is missing or the public
// URL cannot be an origin.
func New(d Deps) (*Kit, error) {
	if err := RequireFields(d, "GuardLocal", "SSO", "PublicURL", "Logger"); err != nil {
		return nil, err
	}
	if d.SSO != nil {
		if err := RequireFields(*d.SSO); err != nil {
			return nil, err
		}
	}
	d.Logger = cmp.Or(d.Logger, slog.New(slog.DiscardHandler))
	d.SessionIdle = cmp.Or(max(0, d.SessionIdle), 12*time.Hour)
	d.PublicURL = strings.TrimSuffix(d.PublicURL, "/")
	k := &Kit{Deps: d, origins: http.NewCrossOriginProtection(), Attention: &attention.Reader{Fleet: d.Fleet,
		Stats: d.Stats, Past: d.Rules, Incidents: d.Incidents, Set: d.Sets.Load, Now: d.Now}}
	if d.PublicURL != "" {
		if err := k.origins.AddTrustedOrigin(d.PublicURL); err != nil {
			return nil, fmt.Errorf("web: public URL: %w", err)
		}
	}
	k.stored = &sessionStore{
		to: d.Sessions, idle: d.SessionIdle, now: d.Now, recall: newRecall(),
		confirmed: func() time.Time { return time.UnixMilli(d.Node().Confirmed) },
	}
	k.sessions = newSessions(&d, k.stored)
	return k, nil
}

// Wrap adds to a handler what every route needs: recovery from panics, security headers, the session, authorization,
// and error pages.
func (k *Kit) Wrap(r *Route) echo.HandlerFunc {
	return func(c echo.Context) error {
		v := &Visit{Context: c, kit: k, route: r, arrived: time.Now()} //nolint:forbidigo // as deadlines of connections
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler { //nolint:errorlint // the very value that net/http documents
					panic(p)
				}
				k.Logger.Error("panic in the console", "route", c.Path(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				v.fail(errPanic)
			}
		}()
		secure(c.Response().Header(), k.encrypted(c.Request()))
		if err := k.serve(v); err != nil {
			v.fail(err)
		}
		return nil
	}
}

// maxQuery bounds what a page is filtered by, in bytes of its URL. Redirects and links have it too, and browsers and
// proxies refuse long headers.
const maxQuery = 8 << 10

// serve authorizes the request and calls the handler.
func (k *Kit) serve(v *Visit) error {
	r := v.Request()
	if k.origins.Check(r) != nil {
		return errCrossOrigin
	}
	if v.route.Role != "" && len(r.URL.RawQuery) > maxQuery {
		return errLongQuery
	}
	r.Body = http.MaxBytesReader(v.Response(), r.Body, v.route.upload().Most)
	if node := k.Node(); node.Replica {
		v.Replica = &rules.ReplicaError{Primary: node.Primary}
	}
	if err := v.loadSession(); err != nil {
		if v.route.Role != "" || !errors.Is(err, rules.ErrUnavailable) {
			return err
		}
		if v.Ctx, err = k.sessions.Load(context.WithValue(r.Context(), presentedKey{}, &presented{}), ""); err != nil {
			return err
		}
	}
	if err := v.readOnly(); err != nil {
		return err
	}
	if v.route.Role != "" {
		switch {
		case v.User.ID != 0:
		case v.route.Stream && v.streaming():
			return v.ended()
		default:
			return v.ToSignIn()
		}
		if !v.User.Role.Includes(v.route.Role) {
			return &Problem{Status: http.StatusForbidden, Title: "Permission denied",
				Detail: fmt.Sprintf("This requires the role %s. You are signed in as %s with the role %s. An administrator can "+
					"change your role under People & tokens.", v.route.Role, v.User.Name, v.User.Role)}
		}
	}
	if v.route.Reauth != nil {
		if done, err := k.reauthenticate(v); done || err != nil {
			return err
		}
	}
	if v.route.Accounts {
		defer v.ForgetSessions()
	}
	return v.route.Handle(v)
}

// encrypted reports whether the browser uses TLS, judged by the public URL or by the connection itself.
func (k *Kit) encrypted(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(k.PublicURL, "https://")
}

// policy allows a page only what this server serves: no inline scripts or styles, nothing of other sites, and no frame
// around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func secure(h http.Header, encrypted bool) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
	if encrypted {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// readOnly rejects a change by a session that is only remembered. While the rules database is a read replica it rejects
// every change, and the forms for changes, so that nobody fills one in for nothing.
func (v *Visit) readOnly() error {
	changes := v.Request().Method == http.MethodPost && !v.route.Offline
	switch {
	case v.Replica != nil && (changes || v.route.Form):
		return v.Replica
	case v.Offline && changes:
		return ErrUnavailable
	}
	return nil
}

// Asset serves a file that browsers keep forever, because its name contains its hash.
func (k *Kit) Asset(c echo.Context) error {
	h := c.Response().Header()
	secure(h, k.encrypted(c.Request()))
	a, ok := static.Find(c.Request().URL.Path)
	if !ok {
		return c.String(http.StatusNotFound, "no such file\n")
	}
	h.Set("Content-Type", a.Type)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Add("Vary", "Accept-Encoding")
	body := a.Body
	if a.Packed != nil && acceptsGzip(c.Request()) {
		h.Set("Content-Encoding", "gzip")
		body = a.Packed
	}
	http.ServeContent(c.Response(), c.Request(), "", time.Time{}, bytes.NewReader(body))
	return nil
}
