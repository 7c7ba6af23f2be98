package kit

import (
	"context"
	"errors"
	"time"

	"github.com/alexedwards/scs/v2"

	"sluice/internal/access"
	"sluice/rules"
)

// extendEvery is how often page views write a session's new expiry to the database.
const extendEvery = time.Minute

// errEnded means that the session of the request ended in the meantime.
var errEnded = errors.New("the session has ended")

// presented is the session of a request and the effect of its next commit. It is in the context that scs passes to the
// store.
type presented struct {
	// token is the hash under which the session is stored, "" if the request has no valid session.
	token   string
	expires time.Time
	// asked is the hash of the secret in the request, even if it belongs to no valid session.
	asked string
	// renewing turns the next deletion into a replacement at the next commit. replaced is the hash of the session to
	// replace, "" for none. Unless must is set, the new session is stored even if the replaced session has ended.
	renewing, must bool
	replaced       string
	// epoch is the epoch of recall before the session was read; offline is set if the session is only remembered.
	epoch   int64
	data    []byte
	offline *access.User
}

type presentedKey struct{}

// presentedIn returns the session of a request; every visit has one.
func presentedIn(ctx context.Context) *presented {
	p, _ := ctx.Value(presentedKey{}).(*presented)
	if p == nil {
		p = &presented{}
	}
	return p
}

// sessionStore adapts Sessions to scs. The session of a request is updated, never inserted: if it ended while the
// request was running, it stays ended, and the commit returns errEnded.
type sessionStore struct {
	to   Sessions
	idle time.Duration
	now  func() time.Time
	// recall remembers sessions, confirmed returns when the database last answered this node.
	recall    *recall
	confirmed func() time.Time
}

var _ scs.CtxStore = (*sessionStore)(nil)

// expiry is the expiry of a session that is used now.
func (s *sessionStore) expiry(deadline time.Time) time.Time {
	if idle := s.now().Add(s.idle); idle.Before(deadline) {
		return idle
	}
	return deadline
}

// FindCtx implements scs.CtxStore.
func (s *sessionStore) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	presentedIn(ctx).asked = token
	if s.recall.isEnded(token) {
		s.deleteEnded(ctx, token)
		return nil, false, nil
	}
	p := presentedIn(ctx)
	p.token, p.epoch = token, s.recall.currentEpoch()
	if s.recall.backingOff(s.now()) && s.fromMemory(p) {
		return p.data, true, nil
	}
	found, ok, err := s.to.FindSession(ctx, token)
	if errors.Is(err, rules.ErrUnavailable) {
		s.recall.databaseDown(s.now(), s.confirmed())
		if s.fromMemory(p) {
			return p.data, true, nil
		}
	}
	if err == nil && !ok {
		s.recall.forgetIfKnown(token) // it was ended on another node, or has expired
	}
	if err != nil || !ok {
		p.token = ""
		return nil, false, err
	}
	s.recall.databaseUp()
	s.deleteEnded(ctx, s.recall.endedToDelete(deletedAtOnce, s.now())...)
	p.expires, p.data = found.ExpiresAt, found.Data
	return found.Data, true, nil
}

// deletedAtOnce is how many sessions that ended during an outage one request deletes afterwards.
const deletedAtOnce = 10

// deleteEnded deletes sessions that were ended on this node during an outage, so that they end on every node.
func (s *sessionStore) deleteEnded(ctx context.Context, tokens ...string) {
	for _, token := range tokens {
		switch err := s.to.DeleteSession(ctx, token); {
		case err == nil:
			s.recall.forgetEnded(token)
		case errors.Is(err, rules.ErrBusy), errors.As(err, new(*rules.ReplicaError)): // it answered, so this is no outage
			s.recall.pauseDeletes(s.now())
			return
		case errors.Is(err, rules.ErrUnavailable):
			s.recall.databaseDown(s.now(), s.confirmed())
			return
		}
	}
}

// fromMemory uses a remembered session for the request, and reports whether there is one.
func (s *sessionStore) fromMemory(p *presented) bool {
	r, ok := s.recall.find(p.token, s.now())
	if ok {
		p.offline, p.data, p.expires = &r.user, r.session.Data, r.session.ExpiresAt
	}
	return ok
}

// CommitCtx implements scs.CtxStore.
func (s *sessionStore) CommitCtx(ctx context.Context, token string, b []byte, deadline time.Time) error {
	p := presentedIn(ctx)
	now := access.Session{Token: token, Data: b, ExpiresAt: s.expiry(deadline)}
	ok, err := true, error(nil)
	switch {
	case p.replaced != "":
		if ok, err = s.to.ReplaceSession(ctx, p.replaced, now); err == nil && !ok && !p.must {
			ok, err = true, s.to.CreateSession(ctx, now)
		}
	case token == p.token:
		ok, err = s.to.UpdateSession(ctx, now)
	default:
		err = s.to.CreateSession(ctx, now)
	}
	if err == nil && !ok {
		return errEnded
	}
	if err == nil {
		if p.token != "" && p.token != token {
			s.recall.forget(p.token)
		}
		*p = presented{token: token, expires: now.ExpiresAt}
	}
	return err
}

// DeleteCtx implements scs.CtxStore.
func (s *sessionStore) DeleteCtx(ctx context.Context, token string) error {
	p := presentedIn(ctx)
	if p.renewing {
		if p.replaced == "" {
			p.replaced = token
		}
		return nil
	}
	switch {
	case p.replaced != "":
		token = p.replaced
	case p.token == "" && p.asked != "":
		token = p.asked // if it was just replaced, its successor ends with it
	}
	err := s.to.DeleteSession(ctx, token)
	if errors.Is(err, rules.ErrUnavailable) {
		s.recall.markEnded(token)
	}
	if p.token == "" && p.replaced == "" {
		s.recall.forgetIfKnown(token) // anyone can send it, and no running request has found it
		return err
	}
	s.recall.forget(token) // after the delete, so that no running request finds it in between
	return err
}

// Find, Commit and Delete implement scs.Store; scs itself calls the variants with a context.
func (s *sessionStore) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

// Commit implements scs.Store.
func (s *sessionStore) Commit(token string, b []byte, expiry time.Time) error {
	return s.CommitCtx(context.Background(), token, b, expiry)
}

// Delete implements scs.Store.
func (s *sessionStore) Delete(token string) error {
	return s.DeleteCtx(context.Background(), token)
}

// renew gives the session a new secret with the next commit; with must only if it has not ended by then.
func (v *Visit) renew(must bool) error {
	p := presentedIn(v.Ctx)
	p.renewing, p.must = true, must
	defer func() { p.renewing = false }()
	return v.kit.sessions.RenewToken(v.Ctx)
}

// extendSession writes the session's new expiry, at most once per extendEvery. It must not fail or delay a page, so an
// error is left to the next page.
func (v *Visit) extendSession() {
	store, p := v.kit.stored, presentedIn(v.Ctx)
	if v.User.ID == 0 || p.token == "" {
		return
	}
	expires := store.expiry(v.kit.sessions.Deadline(v.Ctx))
	if lag := expires.Sub(p.expires).Abs(); lag < min(extendEvery, store.idle/4) || lag == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(v.Ctx, extendTimeout)
	defer cancel()
	found, err := store.to.UpdateSession(ctx, access.Session{Token: p.token, ExpiresAt: expires})
	switch {
	case err != nil:
		v.kit.Logger.Debug("could not note that a session is in use", "error", err)
	case found:
		p.expires = expires
	}
}

// extendTimeout bounds how long extendSession may delay a page.
const extendTimeout = 250 * time.Millisecond
