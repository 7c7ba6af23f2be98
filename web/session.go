package web

import (
	"context"
	"errors"
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

// newSessions configures scs without its default store, which owns a goroutine.
// Lax lets a link from elsewhere arrive signed in; what changes anything is
// guarded by its origin besides.
// When an idle session ends is the store's business, so that scs calls a session
// modified only when it is.
func newSessions(d *Deps, store *sessionStore) *scs.SessionManager {
	encrypted := strings.HasPrefix(d.PublicURL, "https://")
	name := "sluice_session"
	if encrypted {
		name = "__Host-" + name
	}
	return &scs.SessionManager{
		Lifetime: d.SessionLife, Store: store, Codec: scs.GobCodec{},
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
	ctx, err := m.Load(context.WithValue(v.Request().Context(), presentedKey{}, &presented{}), token)
	if err != nil {
		return err
	}
	v.ctx = ctx
	id, p := m.GetInt64(ctx, sessionUser), presentedIn(ctx)
	if id == 0 {
		return nil
	}
	var u access.User
	if p.offline == nil {
		u, err = v.server.deps.Users.GetUser(ctx, id)
	}
	if errors.Is(err, rules.ErrUnavailable) {
		store := v.server.stored
		store.recall.down(store.now(), store.confirmed())
		store.remembered(p)
	}
	switch {
	case p.offline != nil:
		v.user, v.offline, v.away = *p.offline, true, true
		return nil
	case err != nil && !isNotFound(err):
		return err
	case err != nil, u.Disabled, v.server.foreign(&u):
		return m.Destroy(ctx)
	case u.Generation != m.GetInt64(ctx, sessionGeneration):
		// It is left to expire: a password that is being changed gives this very
		// session the account's new generation in a moment.
		v.server.stored.recall.forgetKnown(p.token)
		v.ctx, err = m.Load(context.WithValue(v.Request().Context(), presentedKey{}, &presented{}), "")
		return err
	}
	v.user = u
	v.server.stored.recall.note(p.epoch, access.Session{Token: p.token, Data: p.data, ExpiresAt: p.expires}, u, v.server.deps.Now())
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
	if err := v.renew(false); err != nil {
		return err
	}
	m.Put(v.ctx, sessionUser, u.ID)
	m.Put(v.ctx, sessionGeneration, u.Generation)
	m.Put(v.ctx, sessionProved, s.deps.Now().UnixMilli())
	m.Put(v.ctx, sessionBegan, s.deps.Now().UnixMilli())
	m.Put(v.ctx, sessionAddress, v.RealIP())
	m.Put(v.ctx, sessionAgent, agentOf(v.Request().UserAgent()))
	v.user, v.offline = u, false // the database has just answered, also to who came remembered
	if err := s.deps.Users.NoteLogin(v.ctx, u.ID, s.deps.Now()); err != nil {
		s.log.Warn("could not note a sign-in", "user", u.Name, "error", err)
	}
	s.log.Info("signed in to the console", "user", u.Name, "address", v.RealIP())
	return nil
}

// saveSession writes what changed and sets the cookie. It comes before the
// first byte of an answer. A visitor without a session gets none. If the session
// has ended meanwhile, nothing is written and the cookie is left alone: it opens
// nothing, and the browser may have another one by now.
func (v *visit) saveSession() error {
	if err := v.commit(); err != nil && !errors.Is(err, errEnded) {
		return err
	}
	return nil
}

// commit is saveSession, but tells by errEnded if the session has ended.
func (v *visit) commit() error {
	m := v.server.sessions
	if v.ctx == nil || v.offline {
		return nil
	}
	w := v.Response()
	switch m.Status(v.ctx) {
	case scs.Modified:
		if v.user.ID == 0 && len(m.Keys(v.ctx)) == 0 {
			return nil
		}
		token, deadline, err := m.Commit(v.ctx)
		if err != nil {
			if v.popped && errors.Is(err, rules.ErrUnavailable) {
				return nil // the text that the page shows once is shown once more
			}
			return err
		}
		m.WriteSessionCookie(v.ctx, w, token, deadline) // the database knows when it has been idle for too long
	case scs.Destroyed:
		m.WriteSessionCookie(v.ctx, w, "", time.Time{})
	case scs.Unmodified:
		v.touch()
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
	text := fmt.Sprintf(format, args...)
	if v.late {
		text += " " + notInForce
	}
	v.server.sessions.Put(v.ctx, sessionFlash, text)
}
