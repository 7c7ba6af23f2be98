package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"

	"sluice/internal/access"
	"sluice/limiter"
	"sluice/web/view"
)

// SignOnPath is where the provider of single sign-on sends browsers back to.
const SignOnPath = pathSSOCallback

// ssoLife is how long someone may take at the provider.
const ssoLife = 10 * time.Minute

// ssoAttempt is one way to the provider and back, kept in the session of the
// browser that goes it.
type ssoAttempt struct {
	access.Challenge
	// At is when it began, in ms.
	At int64
	// Next is the page to go on with.
	Next string
	// User is who, being signed in, has to prove it once more; 0 to sign in.
	User int64
}

// ssoName is what the button calls the provider, "" if there is none.
func (s *Server) ssoName() string {
	if s.deps.SSO == nil {
		return ""
	}
	return s.deps.SSO.Name
}

// ssoAsks are the limits on going to the provider, and on coming back.
func ssoAsks(address string) []limiter.Ask {
	asks := []limiter.Ask{{Key: guardKey("sso", address), Limit: guardSignOn, Weight: 1}}
	return appendNetwork(asks, "sso-network", address, guardSignOnNetwork)
}

// putAttempt keeps an attempt in the session. A session that holds nothing else is
// a new one and ends with it.
func (v *visit) putAttempt(a ssoAttempt) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	m := v.server.sessions
	m.Put(v.ctx, sessionSSO, string(text))
	if v.user.ID != 0 {
		return nil
	}
	if err := v.renew(false); err != nil {
		return err
	}
	m.SetDeadline(v.ctx, m.Deadline(v.ctx).Add(min(0, ssoLife-m.Lifetime)))
	return nil
}

// attemptNow is the attempt under way; found is false if there is none, or it took
// too long, or somebody else has signed in since.
func (v *visit) attemptNow() (a ssoAttempt, found bool) {
	text := v.server.sessions.GetString(v.ctx, sessionSSO)
	if text == "" || json.Unmarshal([]byte(text), &a) != nil {
		return ssoAttempt{}, false
	}
	age := v.server.deps.Now().Sub(time.UnixMilli(a.At))
	return a, a.State != "" && age >= 0 && age < ssoLife && (a.User == 0 || a.User == v.user.ID)
}

// takeAttempt is attemptNow, once: whatever comes of it, it is gone from the stored
// session before this returns.
func (v *visit) takeAttempt() (a ssoAttempt, found bool, err error) {
	a, found = v.attemptNow()
	m := v.server.sessions
	if !m.Exists(v.ctx, sessionSSO) {
		return a, false, nil
	}
	m.Remove(v.ctx, sessionSSO)
	if v.user.ID == 0 {
		return a, found, m.Destroy(v.ctx)
	}
	return a, found, v.saveSession()
}

// ssoRefused is the page of an attempt that leads nowhere. said is what the
// provider said, which anybody may have written.
func (s *Server) ssoRefused(v *visit, p *problem, said string) error {
	m := view.SSORefused{Title: p.title, Detail: p.detail, Said: quotable(said), Name: s.ssoName(), SignedIn: v.user.ID != 0}
	return v.page(p.status, view.SSORefusedPage(v.frame(p.title, ""), m))
}

// quotable is a text of someone else's, fit to be shown: 300 characters on a line.
func quotable(text string) string {
	n := 0
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if n++; n > 300 || r == unicode.ReplacementChar || !unicode.IsPrint(r) && r != ' ' {
			return -1
		}
		return r
	}, text))
}

// Why an attempt leads nowhere.
var (
	errSSOOver = &problem{http.StatusBadRequest, "This sign-in is over",
		"It took more than ten minutes, it was finished already, or it began in another browser. Begin again."}
	errSSOAway = &problem{http.StatusServiceUnavailable, "The provider does not answer",
		"Single sign-on has to wait until it does; the reason is in the log. Accounts with a password can sign in meanwhile."}
	errSSOIdentity = &problem{http.StatusForbidden, "Not accepted",
		"What the provider sent does not prove who you are. The reason is in the log. Begin again, and tell an admin if this stays."}
	errSSORefused  = &problem{http.StatusForbidden, "The provider did not let you in", "It ended the sign-in. This is what it said:"}
	errSSODisabled = &problem{http.StatusForbidden, "Kept out", "An admin has disabled your account here."}
	errSSOOther    = &problem{http.StatusForbidden, "That was someone else",
		"You proved to be someone else than who is signed in here, so nothing has changed. Sign out first to go on as them."}
	errSSOStale = &problem{http.StatusForbidden, "Not confirmed",
		"The provider did not ask you again who you are, or does not say when it last did, so nothing has changed."}
)

// ssoFailed is the page of an error that is none of this server's own; any other
// error is returned as it is.
func (s *Server) ssoFailed(v *visit, err error) error {
	switch {
	case errors.Is(err, access.ErrProviderAway):
		s.log.Warn("the provider of single sign-on does not answer", "error", err)
		return s.ssoRefused(v, errSSOAway, "")
	case errors.Is(err, access.ErrIdentity):
		s.log.Warn("refused the answer of single sign-on", "error", err, "address", v.RealIP())
		return s.ssoRefused(v, errSSOIdentity, "")
	case errors.Is(err, access.ErrDisabled):
		return s.ssoRefused(v, errSSODisabled, "")
	}
	var many *tooMany
	if errors.As(err, &many) {
		v.retryAfter(err)
		return s.ssoRefused(v, &problem{http.StatusTooManyRequests, "Too many attempts", many.Error()}, "")
	}
	return err
}
