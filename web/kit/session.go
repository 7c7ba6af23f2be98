package kit

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

// Keys of a session.
const (
	sessionUser       = "user"       // int64
	sessionGeneration = "generation" // int64, of the account at sign-in
	sessionConfirmed  = "proved"     // int64, ms: time of the last confirmation by password
	sessionFlash      = "flash"      // string
	sessionUndo       = "undo"       // string: time of the change that the flash is about in ms, and an Undo
	sessionBegan      = "began"      // int64, ms: time of sign-in
	sessionAddress    = "address"    // string, IP address at sign-in
	sessionAgent      = "agent"      // string, browser at sign-in
	// Areas store further strings with Stash.
)

// reauthWindow is how long a confirmation by password is valid.
const reauthWindow = 10 * time.Minute

// sessionLife ends a session that is in use: after a week, the person signs in again.
const sessionLife = 7 * 24 * time.Hour

// newSessions configures scs without its default store, which owns a goroutine.
// With SameSite=Lax, links from other sites arrive signed in; changes are also protected by the origin check. The store
// handles the end of idle sessions, so that scs marks a session as modified only when it is.
func newSessions(d *Deps, store *sessionStore) *scs.SessionManager {
	encrypted := strings.HasPrefix(d.PublicURL, "https://") || d.PublicURL == "" && d.TLS
	name := "sluice_session"
	if encrypted {
		name = "__Host-" + name
	}
	return &scs.SessionManager{
		Lifetime: sessionLife, Store: store, Codec: scs.GobCodec{},
		HashTokenInStore: true,
		Cookie: scs.SessionCookie{
			Name: name, Path: "/", HttpOnly: true, Secure: encrypted, SameSite: http.SameSiteLaxMode, Persist: true,
		},
	}
}

// loadSession loads the session and its account. A session that started before the account's password or role changed,
// or before the account was disabled, is not accepted.
func (v *Visit) loadSession() error {
	m := v.kit.sessions
	token := ""
	if c, err := v.Request().Cookie(m.Cookie.Name); err == nil {
		token = c.Value
	}
	ctx, err := m.Load(context.WithValue(v.Request().Context(), presentedKey{}, &presented{}), token)
	if err != nil {
		return err
	}
	v.Ctx = ctx
	id, p := m.GetInt64(ctx, sessionUser), presentedIn(ctx)
	if id == 0 {
		return nil
	}
	var u access.User
	if p.offline == nil {
		u, err = v.kit.Users.GetUser(ctx, id)
	}
	if errors.Is(err, rules.ErrUnavailable) {
		store := v.kit.stored
		store.recall.databaseDown(store.now(), store.confirmed())
		store.fromMemory(p)
	}
	switch {
	case p.offline != nil:
		v.User, v.Offline, v.DatabaseDown = *p.offline, true, true
		return nil
	case err != nil && !errors.Is(err, rules.ErrNotFound):
		return err
	case err != nil, u.Disabled, v.kit.wrongProvider(&u):
		if err = m.Destroy(ctx); errors.As(err, new(*rules.ReplicaError)) {
			v.Ctx, err = m.Load(context.WithValue(v.Request().Context(), presentedKey{}, &presented{}), "")
		}
		return err
	case u.Generation != m.GetInt64(ctx, sessionGeneration):
		// The session is not deleted: a change of password in progress is about to give it the account's new generation.
		v.kit.stored.recall.forgetIfKnown(p.token)
		v.Ctx, err = m.Load(context.WithValue(v.Request().Context(), presentedKey{}, &presented{}), "")
		return err
	}
	v.User = u
	v.kit.stored.recall.remember(p.epoch, access.Session{Token: p.token, Data: p.data, ExpiresAt: p.expires}, u,
		v.kit.Now())
	return nil
}

// wrongProvider reports whether an account belongs to a provider that is no longer configured.
func (k *Kit) wrongProvider(u *access.User) bool {
	return u.External() && (k.SSO == nil || k.SSO.Issuer != u.Issuer)
}

// Begin signs a user in, under a new session secret. The browser is known to the account from now on.
func (v *Visit) Begin(u access.User) error {
	m, k := v.kit.sessions, v.kit
	if err := v.renew(false); err != nil {
		return err
	}
	m.Put(v.Ctx, sessionUser, u.ID)
	m.Put(v.Ctx, sessionGeneration, u.Generation)
	m.Put(v.Ctx, sessionConfirmed, k.Now().UnixMilli())
	m.Put(v.Ctx, sessionBegan, k.Now().UnixMilli())
	m.Put(v.Ctx, sessionAddress, v.RealIP())
	m.Put(v.Ctx, sessionAgent, agentOf(v.Request().UserAgent()))
	v.User, v.Offline = u, false // the database has just answered
	v.remember(&u)
	if err := k.Users.NoteLogin(v.Ctx, u.ID, k.Now()); err != nil {
		k.Logger.Warn("could not note a sign-in", "user", u.Name, "error", err)
	}
	k.Logger.Info("signed in to the console", "user", u.Name, "address", v.RealIP())
	return nil
}

// Save stores changes of the session and sets the cookie. Call it before the first byte of the answer. A visitor
// without a session gets none. If the session has ended in the meantime, nothing is written and the cookie is not
// changed, because the browser may already have another one.
func (v *Visit) Save() error {
	if err := v.commit(); err != nil && !errors.Is(err, errEnded) {
		return err
	}
	return nil
}

// commit is Save, but returns errEnded if the session has ended.
func (v *Visit) commit() error {
	m := v.kit.sessions
	if v.Ctx == nil || v.Offline || v.Replica != nil {
		return nil
	}
	w := v.Response()
	switch m.Status(v.Ctx) {
	case scs.Modified:
		if v.User.ID == 0 && len(m.Keys(v.Ctx)) == 0 {
			return nil
		}
		token, deadline, err := m.Commit(v.Ctx)
		if err != nil {
			if v.popped && errors.Is(err, rules.ErrUnavailable) {
				return nil // the flash is shown again on the next page
			}
			return err
		}
		m.WriteSessionCookie(v.Ctx, w, token, deadline) // the database handles idle sessions
	case scs.Destroyed:
		m.WriteSessionCookie(v.Ctx, w, "", time.Time{})
	case scs.Unmodified:
		v.extendSession()
	}
	return nil
}

// recentlyConfirmed reports whether the person confirmed their identity recently.
func (v *Visit) recentlyConfirmed() bool {
	at := time.UnixMilli(v.kit.sessions.GetInt64(v.Ctx, sessionConfirmed))
	age := v.kit.Now().Sub(at)
	return age >= 0 && age < reauthWindow
}

// Actor is the person who makes a change.
func (v *Visit) Actor() rules.Actor { return rules.Actor{Kind: "user", Name: v.User.Name} }

// ActorWithReason is Actor with the reason from the form.
func (v *Visit) ActorWithReason(form url.Values) rules.Actor {
	a := v.Actor()
	a.Reason = strings.TrimSpace(form.Get("reason"))
	return a
}

// Flash sets a message that the next page shows once.
func (v *Visit) Flash(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if v.NotYetInForce {
		text += " " + notInForce
	}
	v.kit.sessions.Put(v.Ctx, sessionFlash, text)
	if v.undo != "" {
		v.kit.sessions.Put(v.Ctx, sessionUndo, v.undo)
	} else {
		v.kit.sessions.Remove(v.Ctx, sessionUndo)
	}
}

// agentOf is a short description of the browser from its User-Agent header. It is a hint for people and can be wrong.
func agentOf(header string) string {
	browser, system := "", ""
	for _, b := range []struct{ sign, name string }{
		{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"},
		{"curl/", "curl"},
	} {
		if strings.Contains(header, b.sign) {
			browser = b.name
			break
		}
	}
	for _, o := range []struct{ sign, name string }{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"},
		{"CrOS", "ChromeOS"}, {"Linux", "Linux"},
	} {
		if strings.Contains(header, o.sign) {
			system = o.name
			break
		}
	}
	switch {
	case browser != "" && system != "":
		return browser + " on " + system
	case browser+system != "":
		return browser + system
	}
	return "another program"
}
