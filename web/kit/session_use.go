package kit

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"time"

	"sluice/internal/access"
)

// SessionLine is a session of an account for pages.
type SessionLine struct {
	// ID identifies the session on the page.
	ID             string
	Address, Agent string
	Began, Expires time.Time
	// Here means that it is the session that shows the page.
	Here bool
	// User is the account, Generation the account's generation at sign-in.
	User, Generation int64
}

// ReadSession decodes a stored session; false if another version wrote it.
func (v *Visit) ReadSession(stored *access.Session) (SessionLine, bool) {
	_, values, err := v.kit.sessions.Codec.Decode(stored.Data)
	if err != nil {
		return SessionLine{}, false
	}
	number := func(field string) int64 {
		n, _ := values[field].(int64)
		return n
	}
	l := SessionLine{ID: shortID(stored.Token), Expires: stored.ExpiresAt, User: number(sessionUser),
		Generation: number(sessionGeneration)}
	l.Address, _ = values[sessionAddress].(string)
	l.Agent, _ = values[sessionAgent].(string)
	if began := number(sessionBegan); began > 0 {
		l.Began = time.UnixMilli(began)
	}
	sum := sha256.Sum256([]byte(v.kit.sessions.Token(v.Ctx)))
	l.Here = l.ID == shortID(base64.RawURLEncoding.EncodeToString(sum[:])) // scs stores sessions under this hash
	return l, true
}

// shortID identifies a session on a page without revealing its hash.
func shortID(token string) string {
	sum := sha256.Sum256([]byte("session " + token))
	return hex.EncodeToString(sum[:8])
}

// EndSession ends the visitor's session.
func (v *Visit) EndSession() error { return v.kit.sessions.Destroy(v.Ctx) }

// ClearCookie removes the session cookie from the browser, even if the session cannot be ended.
func (v *Visit) ClearCookie() {
	v.kit.sessions.WriteSessionCookie(v.Ctx, v.Response(), "", time.Time{})
}

// KeepSession keeps the session valid after a change of its account.
func (v *Visit) KeepSession(u access.User) {
	v.kit.sessions.Put(v.Ctx, sessionGeneration, u.Generation)
}

// ConfirmedAt records when the person last confirmed their identity, in ms.
func (v *Visit) ConfirmedAt(at int64) { v.kit.sessions.Put(v.Ctx, sessionConfirmed, at) }

// Stash stores a string in the session. If nobody is signed in, the session is new and ends after life.
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

// Stashed returns a string from the session, "" for none.
func (v *Visit) Stashed(name string) string { return v.kit.sessions.GetString(v.Ctx, name) }

// Unstash removes a string from the stored session.
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

// ForgetSessions forgets the sessions that this node remembers for an outage of the rules database, because a change
// of accounts may have ended some. Call it only once the visitor has proved that they may make the change: during an
// outage the sessions cannot be verified again.
func (v *Visit) ForgetSessions() { v.kit.stored.recall.forgetAll() }

// SessionID identifies the visitor's session without revealing its hash.
func (v *Visit) SessionID() string { return shortID(presentedIn(v.Ctx).token) }
