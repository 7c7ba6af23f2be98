package web

import (
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/internal/access"
	"sluice/web/view"
)

const (
	// maxCode bounds a code, in bytes; the longest known have two kilobytes.
	maxCode = 8 << 10
	// clockSkew is how far the provider's clock may be behind.
	clockSkew = time.Minute
)

// ssoCallback takes the provider's answer, once, in the browser that went.
func (s *Server) ssoCallback(v *visit) error {
	if s.deps.SSO == nil {
		return errMissing
	}
	a, found, err := v.takeAttempt()
	if err != nil {
		return err
	}
	q := v.QueryParams()
	if !found || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(a.State)) != 1 {
		return s.ssoRefused(v, errSSOOver, "")
	}
	done, err := s.admit(v.ctx, ssoAsks(addressOf(v.RealIP())), "address", v.RealIP())
	if err != nil {
		return s.ssoFailed(v, err)
	}
	id, err := s.identify(v, q, &a)
	if err == nil && a.User != 0 {
		err = s.sameAndFresh(v, &id, &a)
	}
	var u access.User
	if err == nil {
		u, err = s.deps.SSO.Accounts.SignOn(v.ctx, id)
	}
	var p *problem
	switch {
	case errors.Is(err, access.ErrNoRole):
		return s.ssoNoRole(v, &id)
	case errors.As(err, &p):
		return s.ssoRefused(v, p, said(q))
	case err != nil:
		return s.ssoFailed(v, err)
	}
	done()
	done() // the way there, too
	if a.User != 0 {
		return s.ssoProved(v, u)
	}
	if err := v.begin(u); err != nil {
		return err
	}
	// The provider may have known the person for hours. What cannot be undone goes by
	// when they last proved who they are.
	s.sessions.Put(v.ctx, sessionProved, min(max(0, id.AuthTime.UnixMilli()), s.deps.Now().UnixMilli()))
	return v.redirect(a.Next)
}

// identify turns the answer into who is there. A *problem is a page.
func (s *Server) identify(v *visit, q url.Values, a *ssoAttempt) (access.Identity, error) {
	// A provider that names itself must be the one to which the browser was sent
	// (RFC 9207).
	if by := q.Get("iss"); by != "" && by != s.deps.SSO.Issuer {
		return access.Identity{}, errSSOIdentity
	}
	code := q.Get("code")
	switch {
	case q.Get("error") != "":
		s.log.Info("the provider of single sign-on refused", "said", quotable(said(q)), "address", v.RealIP())
		return access.Identity{}, errSSORefused
	case code == "" || len(code) > maxCode:
		return access.Identity{}, errSSOIdentity
	}
	id, err := s.deps.SSO.Provider.Exchange(v.ctx, code, a.Challenge)
	if err == nil && (id.Issuer != s.deps.SSO.Issuer || id.Subject == "") {
		err = access.ErrIdentity
	}
	return id, err
}

// said is the provider's reason for refusing.
func said(q url.Values) string {
	return strings.Trim(q.Get("error")+": "+q.Get("error_description"), ": ")
}

// sameAndFresh: who is signed in proved it to the provider since the attempt began.
func (s *Server) sameAndFresh(v *visit, id *access.Identity, a *ssoAttempt) error {
	began := time.UnixMilli(a.At).Add(-clockSkew)
	switch {
	case id.Issuer != v.user.Issuer || id.Subject != v.user.Subject:
		s.log.Warn("someone else confirmed an act by single sign-on", "user", v.user.Name, "subject", id.Subject, "address", v.RealIP())
		return errSSOOther
	case id.AuthTime.Before(began):
		s.log.Warn("single sign-on does not say that someone has just signed in", "user", v.user.Name, "at", id.AuthTime)
		return errSSOStale
	}
	return nil
}

// ssoProved notes that who is signed in has proved it. What it was for waits in
// another window.
func (s *Server) ssoProved(v *visit, u access.User) error {
	if err := v.prove(); err != nil {
		return err
	}
	s.sessions.Put(v.ctx, sessionGeneration, u.Generation) // with the role that it has by now
	v.user = u
	return v.page(http.StatusOK, view.SSOProvedPage(v.frame("It is you", "")))
}

// ssoNoRole tells someone whom the provider knows that nothing lets them in here.
// Which groups would is for the operator, in the log.
func (s *Server) ssoNoRole(v *visit, id *access.Identity) error {
	shown := id.Groups[:min(len(id.Groups), 20)]
	s.log.Warn("refused to sign in by single sign-on: none of the groups has a role",
		"subject", id.Subject, "name", id.Name, "claim", s.deps.SSO.Claim, "groups", len(id.Groups), "first", quotable(strings.Join(shown, ", ")))
	if v.user.ID != 0 && v.user.Issuer == id.Issuer && v.user.Subject == id.Subject {
		if err := s.sessions.Destroy(v.ctx); err != nil {
			return err
		}
		v.user = access.User{}
	}
	why := "names no groups of yours"
	if len(id.Groups) > 0 {
		why = "names groups of yours, and none of them has a role here"
	}
	return s.ssoRefused(v, &problem{http.StatusForbidden, "No role for you here",
		"You are known, but not let in: the provider's claim “" + s.deps.SSO.Claim + "” " + why + ". Ask whoever looks after this console, or your groups."}, "")
}
