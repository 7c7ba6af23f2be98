package kit

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"time"

	"sluice/internal/access"
)

// SessionLine is one session of an account as pages show it.
type SessionLine struct {
	// ID names it on the page.
	ID             string
	Address, Agent string
	Began, Expires time.Time
	// Here: it is the one that shows the page.
	Here bool
	// User is whose it is, Generation the account's at sign-in.
	User, Generation int64
}

// ReadSession reads a stored session; false if another build wrote it.
func (v *Visit) ReadSession(stored *access.Session) (SessionLine, bool) {
	_, values, err := v.kit.sessions.Codec.Decode(stored.Data)
	if err != nil {
		return SessionLine{}, false
	}
	number := func(field string) int64 {
		n, _ := values[field].(int64)
		return n
	}
	l := SessionLine{ID: shortID(stored.Token), Expires: stored.ExpiresAt, User: number(sessionUser), Generation: number(sessionGeneration)}
	l.Address, _ = values[sessionAddress].(string)
	l.Agent, _ = values[sessionAgent].(string)
	if began := number(sessionBegan); began > 0 {
		l.Began = time.UnixMilli(began)
	}
	sum := sha256.Sum256([]byte(v.kit.sessions.Token(v.Ctx)))
	l.Here = l.ID == shortID(base64.RawURLEncoding.EncodeToString(sum[:])) // scs stores sessions under this hash
	return l, true
}

// shortID names a session on a page without giving away even its hash.
func shortID(token string) string {
	sum := sha256.Sum256([]byte("session " + token))
	return hex.EncodeToString(sum[:8])
}

// EndSession ends the session of the visit.
func (v *Visit) EndSession() error { return v.kit.sessions.Destroy(v.Ctx) }

// ClearCookie takes the session's cookie back from the browser, whatever becomes of
// the session.
func (v *Visit) ClearCookie() {
	v.kit.sessions.WriteSessionCookie(v.Ctx, v.Response(), "", time.Time{})
}

// Stay keeps the session of an account that has just been changed.
func (v *Visit) Stay(u access.User) { v.kit.sessions.Put(v.Ctx, sessionGeneration, u.Generation) }

// ProvedAt notes when who is signed in last proved who they are.
func (v *Visit) ProvedAt(at int64) { v.kit.sessions.Put(v.Ctx, sessionProved, at) }

// Stash keeps a text in the session. A session that holds nothing else is a new one
// and ends after life.
func (v *Visit) Stash(name, text string, life time.Duration) error {
	m := v.kit.sessions
	m.Put(v.Ctx, name, text)
	if v.User.ID != 0 {
		return nil
	}
	if err := v.renew(false); err != nil {
		return err
	}
	m.SetDeadline(v.Ctx, m.Deadline(v.Ctx).Add(min(0, life-m.Lifetime)))
	return nil
}

// Stashed is a text that is kept in the session, "" for none.
func (v *Visit) Stashed(name string) string { return v.kit.sessions.GetString(v.Ctx, name) }

// Unstash takes a text out of the stored session before it returns.
func (v *Visit) Unstash(name string) error {
	m := v.kit.sessions
	if !m.Exists(v.Ctx, name) {
		return nil
	}
	m.Remove(v.Ctx, name)
	if v.User.ID == 0 {
		return m.Destroy(v.Ctx)
	}
	return v.Save()
}
