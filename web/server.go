package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/labstack/echo/v4"

	"sluice/rules"
	"sluice/rules/rulefile"
)

const (
	// maxForm bounds a posted form, in bytes.
	maxForm = 1 << 20
	// maxImport and maxOverrides are files of the largest size, and a little for the
	// rest of the form.
	maxImport    = rulefile.MaxFile + maxForm
	maxOverrides = rulefile.MaxOverrideFile + maxForm
	// maxApply is a file that the page carries along, in the longest encoding of a
	// form, three bytes for one.
	maxApply = 3*maxCarried + 64<<10
)

// Server is the console. It is safe for concurrent use and owns no goroutine;
// time limits on connections are the http.Server's.
type Server struct {
	deps     Deps
	log      *slog.Logger
	sessions *scs.SessionManager
	stored   *sessionStore
	// origins refuses what a browser sends on behalf of another site.
	origins *http.CrossOriginProtection
	// streams counts the streams of live figures that are open.
	streams atomic.Int64
	// uploads are files whose plan has been shown.
	uploads uploads
}

// New makes a Server. It fails only if something required is missing or the
// public URL cannot be an origin.
func New(d Deps) (*Server, error) {
	if d.Rules == nil || d.Sets == nil || d.Users == nil || d.Sessions == nil || d.Guard == nil || d.Node == nil || d.Fleet == nil || d.Now == nil {
		return nil, errors.New("web: Rules, Sets, Users, Sessions, Guard, Node, Fleet and Now are required")
	}
	if d.Writer == nil || d.Bulk == nil || d.History == nil || d.Changed == nil || d.Denials == nil || d.Headers == nil {
		return nil, errors.New("web: Writer, Bulk, History, Changed, Denials and Headers are required")
	}
	if !d.Live.whole() {
		return nil, errors.New("web: every field of Live is required")
	}
	if !d.Inspect.whole() {
		return nil, errors.New("web: every field of Inspect is required")
	}
	if err := errors.Join(d.Admin.check(), d.SSO.check()); err != nil {
		return nil, err
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.SessionIdle <= 0 {
		d.SessionIdle = 12 * time.Hour
	}
	if d.SessionLife <= 0 {
		d.SessionLife = 7 * 24 * time.Hour
	}
	s := &Server{deps: d, log: d.Logger, origins: http.NewCrossOriginProtection(), uploads: uploads{now: d.Now}}
	d.PublicURL = strings.TrimSuffix(d.PublicURL, "/")
	if d.PublicURL != "" {
		if err := s.origins.AddTrustedOrigin(d.PublicURL); err != nil {
			return nil, fmt.Errorf("web: public URL: %w", err)
		}
	}
	s.stored = &sessionStore{
		to: d.Sessions, idle: d.SessionIdle, now: d.Now, recall: newRecall(),
		confirmed: func() time.Time { return time.UnixMilli(d.Node().Confirmed) },
	}
	s.sessions = newSessions(&d, s.stored)
	return s, nil
}

// wrap puts around an action what every route needs: containment of panics,
// the security headers, the session, authorisation, and error pages.
func (s *Server) wrap(r *Route) echo.HandlerFunc {
	return func(c echo.Context) error {
		v := &visit{Context: c, server: s, route: r}
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler { //nolint:errorlint // the very value that net/http documents
					panic(p)
				}
				s.log.Error("panic in the console", "route", c.Path(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				v.fail(errPanic)
			}
		}()
		secure(c.Response().Header(), s.encrypted(c.Request()))
		if err := s.serve(v); err != nil {
			v.fail(err)
		}
		return nil
	}
}

// serve authorises and acts.
func (s *Server) serve(v *visit) error {
	r := v.Request()
	if s.origins.Check(r) != nil {
		return errCrossOrigin
	}
	r.Body = http.MaxBytesReader(v.Response(), r.Body, cmp.Or(v.route.Body, maxForm))
	if err := v.loadSession(); err != nil {
		if v.route.Role != "" || !errors.Is(err, rules.ErrUnavailable) {
			return err
		}
		if v.ctx, err = s.sessions.Load(context.WithValue(r.Context(), presentedKey{}, &presented{}), ""); err != nil {
			return err
		}
	}
	if err := v.readOnly(); err != nil {
		return err
	}
	if r.Method == http.MethodPost && slices.ContainsFunc([]string{pathPeople, pathAccount, pathInvite}, func(p string) bool { return strings.HasPrefix(v.route.Path, p) }) {
		defer s.stored.recall.forgetAll() // what it changed may end sessions
	}
	if v.route.Role != "" {
		switch {
		case v.user.ID != 0:
		case v.route.Path == pathEvents && v.streaming():
			return v.ended()
		default:
			return v.toSignIn()
		}
		if !v.user.Role.Includes(v.route.Role) {
			return &problem{status: http.StatusForbidden, title: "Not with your role",
				detail: fmt.Sprintf("This needs the role %s; you are signed in as %s with the role %s. An admin can change that under People & tokens.", v.route.Role, v.user.Name, v.user.Role)}
		}
	}
	if v.route.Reauth {
		if done, err := s.reauthenticate(v); done || err != nil {
			return err
		}
	}
	return v.route.handle(s, v)
}

// missing is the page for what is not there.
func (s *Server) missing(*visit) error { return errMissing }

// encrypted reports whether the browser's connection is: by what the
// configuration says of the public URL, or by the connection itself.
func (s *Server) encrypted(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(s.deps.PublicURL, "https://")
}

// policy lets a page use only what this server serves: no inline script or
// style, no other site's anything, and no frame around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

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
