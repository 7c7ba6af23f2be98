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

// What a session holds.
const (
	sessionUser       = "user"       // int64
	sessionGeneration = "generation" // int64, of the account at sign-in
	sessionProved     = "proved"     // int64, ms: when the password was last given
	sessionFlash      = "flash"      // string
	sessionBegan      = "began"      // int64, ms: when it began
	sessionAddress    = "address"    // string, from where
	sessionAgent      = "agent"      // string, with what
	// Areas keep strings of their own with Stash.
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
		store.recall.down(store.now(), store.confirmed())
		store.remembered(p)
	}
	switch {
	case p.offline != nil:
		v.User, v.Offline, v.Away = *p.offline, true, true
		return nil
	case err != nil && !errors.Is(err, rules.ErrNotFound):
		return err
	case err != nil, u.Disabled, v.kit.foreign(&u):
		return m.Destroy(ctx)
	case u.Generation != m.GetInt64(ctx, sessionGeneration):
		// It is left to expire: a password that is being changed gives this very
		// session the account's new generation in a moment.
		v.kit.stored.recall.forgetKnown(p.token)
		v.Ctx, err = m.Load(context.WithValue(v.Request().Context(), presentedKey{}, &presented{}), "")
		return err
	}
	v.User = u
	v.kit.stored.recall.note(p.epoch, access.Session{Token: p.token, Data: p.data, ExpiresAt: p.expires}, u, v.kit.Now())
	return nil
}

// foreign reports whether an account is of a provider that is no longer believed:
// single sign-on was turned off, or moved elsewhere.
func (k *Kit) foreign(u *access.User) bool {
	return u.External() && (k.SSO == nil || k.SSO.Issuer != u.Issuer)
}

// Begin signs a user in, under a new session secret.
func (v *Visit) Begin(u access.User) error {
	m, k := v.kit.sessions, v.kit
	if err := v.renew(false); err != nil {
		return err
	}
	m.Put(v.Ctx, sessionUser, u.ID)
	m.Put(v.Ctx, sessionGeneration, u.Generation)
	m.Put(v.Ctx, sessionProved, k.Now().UnixMilli())
	m.Put(v.Ctx, sessionBegan, k.Now().UnixMilli())
	m.Put(v.Ctx, sessionAddress, v.RealIP())
	m.Put(v.Ctx, sessionAgent, agentOf(v.Request().UserAgent()))
	v.User, v.Offline = u, false // the database has just answered, also to who came remembered
	if err := k.Users.NoteLogin(v.Ctx, u.ID, k.Now()); err != nil {
		k.Logger.Warn("could not note a sign-in", "user", u.Name, "error", err)
	}
	k.Logger.Info("signed in to the console", "user", u.Name, "address", v.RealIP())
	return nil
}

// Save writes what changed of the session and sets the cookie. It comes before the
// first byte of an answer. A visitor without a session gets none. If the session
// has ended meanwhile, nothing is written and the cookie is left alone: it opens
// nothing, and the browser may have another one by now.
func (v *Visit) Save() error {
	if err := v.commit(); err != nil && !errors.Is(err, errEnded) {
		return err
	}
	return nil
}

// commit is Save, but tells by errEnded if the session has ended.
func (v *Visit) commit() error {
	m := v.kit.sessions
	if v.Ctx == nil || v.Offline {
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
				return nil // the text that the page shows once is shown once more
			}
			return err
		}
		m.WriteSessionCookie(v.Ctx, w, token, deadline) // the database knows when it has been idle for too long
	case scs.Destroyed:
		m.WriteSessionCookie(v.Ctx, w, "", time.Time{})
	case scs.Unmodified:
		v.touch()
	}
	return nil
}

// proved reports whether the password was given lately.
func (v *Visit) proved() bool {
	at := time.UnixMilli(v.kit.sessions.GetInt64(v.Ctx, sessionProved))
	age := v.kit.Now().Sub(at)
	return age >= 0 && age < reauthWindow
}

// Actor is who makes a change.
func (v *Visit) Actor() rules.Actor { return rules.Actor{Kind: "user", Name: v.User.Name} }

// Because is who makes a change, with the reason that a form gives for it.
func (v *Visit) Because(form url.Values) rules.Actor {
	a := v.Actor()
	a.Reason = strings.TrimSpace(form.Get("reason"))
	return a
}

// Flash is shown on the next page, once.
func (v *Visit) Flash(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if v.Late {
		text += " " + notInForce
	}
	v.kit.sessions.Put(v.Ctx, sessionFlash, text)
}

// agentOf says in a few words with what someone signed in, by what browsers call
// themselves; it is a help for people, not a fact.
func agentOf(header string) string {
	browser, system := "", ""
	for _, b := range []struct{ sign, name string }{
		{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"},
	} {
		if strings.Contains(header, b.sign) {
			browser = b.name
			break
		}
	}
	for _, o := range []struct{ sign, name string }{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"CrOS", "ChromeOS"}, {"Linux", "Linux"},
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
