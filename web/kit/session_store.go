package kit

import (
	"context"
	"errors"
	"time"

	"github.com/alexedwards/scs/v2"

	"sluice/internal/access"
	"sluice/rules"
)

// touchEvery is how much a session's expiry may lag behind: looking at pages
// writes to the database at most this often.
const touchEvery = time.Minute

// errEnded: the session that a request came with has ended meanwhile.
var errEnded = errors.New("the session has ended")

// presented is the session that a request came with, and what its next commit
// does. It travels in the context that scs hands to the store.
type presented struct {
	// token is the hash under which the session is stored, "" if the request came
	// with none that is in force.
	token   string
	expires time.Time
	// asked is the hash of the secret that the request came with, also if no session
	// is in force under it.
	asked string
	// renewing turns the next deletion into a replacement at the next commit.
	// replaced is the hash of the session to replace, "" for none. Unless must is
	// set, the new session is stored also if that one has ended.
	renewing, must bool
	replaced       string
	// epoch is that of recall before the session was read; offline is set if it is
	// only remembered.
	epoch   int64
	data    []byte
	offline *access.User
}

type presentedKey struct{}

// presentedIn gives the session that a request came with; every visit has one.
func presentedIn(ctx context.Context) *presented {
	p, _ := ctx.Value(presentedKey{}).(*presented)
	if p == nil {
		p = &presented{}
	}
	return p
}

// sessionStore lets scs use Sessions. A session that came with a request is
// updated, never inserted: if it was ended while the request was under way, it
// stays ended, and the commit is errEnded.
type sessionStore struct {
	to   Sessions
	idle time.Duration
	now  func() time.Time
	// recall remembers sessions, confirmed is when this node last heard from the
	// database.
	recall    *recall
	confirmed func() time.Time
}

var _ scs.CtxStore = (*sessionStore)(nil)

// expiry is when a session ends that is used now.
func (s *sessionStore) expiry(deadline time.Time) time.Time {
	if idle := s.now().Add(s.idle); idle.Before(deadline) {
		return idle
	}
	return deadline
}

// FindCtx implements scs.CtxStore.
func (s *sessionStore) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	presentedIn(ctx).asked = token
	if s.recall.buried(token) {
		s.deleteBuried(ctx, token)
		return nil, false, nil
	}
	p := presentedIn(ctx)
	p.token, p.epoch = token, s.recall.now()
	if s.recall.waiting(s.now()) && s.remembered(p) {
		return p.data, true, nil
	}
	found, ok, err := s.to.FindSession(ctx, token)
	if errors.Is(err, rules.ErrUnavailable) {
		s.recall.down(s.now(), s.confirmed())
		if s.remembered(p) {
			return p.data, true, nil
		}
	}
	if err == nil && !ok {
		s.recall.forgetKnown(token) // it was ended elsewhere, or has expired
	}
	if err != nil || !ok {
		p.token = ""
		return nil, false, err
	}
	s.recall.up()
	s.deleteBuried(ctx, s.recall.graves(buriedAtOnce, s.now())...)
	p.expires, p.data = found.ExpiresAt, found.Data
	return found.Data, true, nil
}

// buriedAtOnce is how many sessions that were ended during an outage one request
// deletes afterwards.
const buriedAtOnce = 10

// deleteBuried deletes sessions that were ended here while the database did not
// answer, so that they have ended on every node.
func (s *sessionStore) deleteBuried(ctx context.Context, tokens ...string) {
	for _, token := range tokens {
		switch err := s.to.DeleteSession(ctx, token); {
		case err == nil:
			s.recall.level(token)
		case errors.Is(err, rules.ErrBusy): // the database answers, so this is no outage
			s.recall.postpone(s.now())
			return
		case errors.Is(err, rules.ErrUnavailable):
			s.recall.down(s.now(), s.confirmed())
			return
		}
	}
}

// remembered makes a visit one of a session that is only remembered.
func (s *sessionStore) remembered(p *presented) bool {
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
		token = p.asked // it may have been replaced a moment ago; its successor ends with it
	}
	err := s.to.DeleteSession(ctx, token)
	if errors.Is(err, rules.ErrUnavailable) {
		s.recall.bury(token)
	}
	s.recall.forget(token) // after it is deleted, so that no request under way finds it in between
	return err
}

// Find, Commit and Delete implement scs.Store; scs calls those with a context.
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

// renew puts the session under another secret with the next commit. must: only if
// it is still in force then.
func (v *Visit) renew(must bool) error {
	p := presentedIn(v.Ctx)
	p.renewing, p.must = true, must
	defer func() { p.renewing = false }()
	return v.kit.sessions.RenewToken(v.Ctx)
}

// touch notes that the session is in use, at most once in touchEvery. It must not
// fail or hold up a page, so what goes wrong is left for the next one.
func (v *Visit) touch() {
	store, p := v.kit.stored, presentedIn(v.Ctx)
	if v.User.ID == 0 || p.token == "" {
		return
	}
	expires := store.expiry(v.kit.sessions.Deadline(v.Ctx))
	if lag := expires.Sub(p.expires).Abs(); lag < min(touchEvery, store.idle/4) || lag == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(v.Ctx, touchTimeout)
	defer cancel()
	found, err := store.to.UpdateSession(ctx, access.Session{Token: p.token, ExpiresAt: expires})
	switch {
	case err != nil:
		v.kit.Logger.Debug("could not note that a session is in use", "error", err)
	case found:
		p.expires = expires
	}
}

// touchTimeout bounds how long touch may hold up a page.
const touchTimeout = 250 * time.Millisecond
