package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"

	"sluice/internal/access"
	"sluice/rules"
)

// What a session holds.
const (
	sessionUser       = "user"       // int64
	sessionGeneration = "generation" // int64, of the account at sign-in
	sessionProved     = "proved"     // int64, ms: when the password was last given
	sessionFlash      = "flash"      // string
	sessionBegan      = "began"      // int64, ms: when it began
	sessionAddress    = "address"    // string, from where
	sessionAgent      = "agent"      // string, with what
	sessionSSO        = "sso"        // string, a ssoAttempt as JSON: on the way to the provider and back
)

// reauthWindow is how long a password given counts for what cannot be undone.
const reauthWindow = 10 * time.Minute

// sessionStore lets scs use Sessions.
type sessionStore struct{ to Sessions }

var _ scs.CtxStore = sessionStore{}

// FindCtx implements scs.CtxStore.
func (s sessionStore) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	return s.to.FindSession(ctx, token)
}

// CommitCtx implements scs.CtxStore.
func (s sessionStore) CommitCtx(ctx context.Context, token string, b []byte, expiry time.Time) error {
	return s.to.SaveSession(ctx, token, b, expiry)
}

// DeleteCtx implements scs.CtxStore.
func (s sessionStore) DeleteCtx(ctx context.Context, token string) error {
	return s.to.DeleteSession(ctx, token)
}

// Find, Commit and Delete implement scs.Store; scs calls those with a context.
func (s sessionStore) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

// Commit implements scs.Store.
func (s sessionStore) Commit(token string, b []byte, expiry time.Time) error {
	return s.CommitCtx(context.Background(), token, b, expiry)
}

// Delete implements scs.Store.
func (s sessionStore) Delete(token string) error {
	return s.DeleteCtx(context.Background(), token)
}

// newSessions configures scs without its default store, which owns a goroutine.
// Lax lets a link from elsewhere arrive signed in; what changes anything is
// guarded by its origin besides.
func newSessions(d *Deps) *scs.SessionManager {
	encrypted := strings.HasPrefix(d.PublicURL, "https://")
	name := "sluice_session"
	if encrypted {
		name = "__Host-" + name
	}
	return &scs.SessionManager{
		IdleTimeout: d.SessionIdle, Lifetime: d.SessionLife, Store: sessionStore{d.Sessions}, Codec: scs.GobCodec{},
		HashTokenInStore: true,
		Cookie: scs.SessionCookie{
			Name: name, Path: "/", HttpOnly: true, Secure: encrypted, SameSite: http.SameSiteLaxMode, Persist: true,
		},
	}
}

// loadSession finds out who is there. A session that its account has outlived
// (another password, another role, disabled) is nobody's.
func (v *visit) loadSession() error {
	m := v.server.sessions
	token := ""
	if c, err := v.Request().Cookie(m.Cookie.Name); err == nil {
		token = c.Value
	}
	ctx, err := m.Load(v.Request().Context(), token)
	if err != nil {
		return err
	}
	v.ctx = ctx
	id := m.GetInt64(ctx, sessionUser)
	if id == 0 {
		return nil
	}
	u, err := v.server.deps.Users.GetUser(ctx, id)
	switch {
	case err != nil && !isNotFound(err):
		return err
	case err != nil, u.Disabled, u.Generation != m.GetInt64(ctx, sessionGeneration), v.server.foreign(&u):
		return m.Destroy(ctx)
	}
	v.user = u
	return nil
}

// foreign reports whether an account is of a provider that is no longer believed:
// single sign-on was turned off, or moved elsewhere.
func (s *Server) foreign(u *access.User) bool {
	return u.External() && (s.deps.SSO == nil || s.deps.SSO.Issuer != u.Issuer)
}

// begin signs a user in, under a new session secret.
func (v *visit) begin(u access.User) error {
	m, s := v.server.sessions, v.server
	if err := m.RenewToken(v.ctx); err != nil {
		return err
	}
	m.Put(v.ctx, sessionUser, u.ID)
	m.Put(v.ctx, sessionGeneration, u.Generation)
	m.Put(v.ctx, sessionProved, s.deps.Now().UnixMilli())
	m.Put(v.ctx, sessionBegan, s.deps.Now().UnixMilli())
	m.Put(v.ctx, sessionAddress, v.RealIP())
	m.Put(v.ctx, sessionAgent, agentOf(v.Request().UserAgent()))
	v.user = u
	if err := s.deps.Users.NoteLogin(v.ctx, u.ID, s.deps.Now()); err != nil {
		s.log.Warn("could not note a sign-in", "user", u.Name, "error", err)
	}
	s.log.Info("signed in to the console", "user", u.Name, "address", v.RealIP())
	return nil
}

// saveSession writes what changed and sets the cookie. It comes before the
// first byte of an answer. A visitor without a session gets none.
func (v *visit) saveSession() error {
	m := v.server.sessions
	if v.ctx == nil {
		return nil
	}
	w := v.Response()
	switch m.Status(v.ctx) {
	case scs.Modified:
		if v.user.ID == 0 && len(m.Keys(v.ctx)) == 0 {
			return nil
		}
		token, expires, err := m.Commit(v.ctx)
		if err != nil {
			return err
		}
		m.WriteSessionCookie(v.ctx, w, token, expires)
	case scs.Destroyed:
		m.WriteSessionCookie(v.ctx, w, "", time.Time{})
	case scs.Unmodified:
	}
	return nil
}

// proved reports whether the password was given lately.
func (v *visit) proved() bool {
	at := time.UnixMilli(v.server.sessions.GetInt64(v.ctx, sessionProved))
	age := v.server.deps.Now().Sub(at)
	return age >= 0 && age < reauthWindow
}

// actor is who makes a change.
func (v *visit) actor() rules.Actor { return rules.Actor{Kind: "user", Name: v.user.Name} }

// because is who makes a change, with the reason that a form gives for it.
func (v *visit) because(form url.Values) rules.Actor {
	a := v.actor()
	a.Reason = strings.TrimSpace(form.Get("reason"))
	return a
}

// flash is shown on the next page, once.
func (v *visit) flash(format string, args ...any) {
	v.server.sessions.Put(v.ctx, sessionFlash, fmt.Sprintf(format, args...))
}
