package signin

import (
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/internal/access"
	"sluice/web/kit"
)

const (
	// maxCode bounds a code, in bytes; the longest known have two kilobytes.
	maxCode = 8 << 10
	// clockSkew is how far the provider's clock may be behind.
	clockSkew = time.Minute
)

// ssoCallback takes the provider's answer, once, in the browser that went.
func (p *Pages) ssoCallback(v *kit.Visit) error {
	if p.SSO == nil {
		return kit.ErrMissing
	}
	a, found, err := p.takeAttempt(v)
	if err != nil {
		return err
	}
	q := v.QueryParams()
	if !found || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(a.State)) != 1 {
		return p.ssoRefused(v, errSSOOver, "")
	}
	done, err := v.AdmitSignOn()
	if err != nil {
		return p.ssoFailed(v, err)
	}
	id, err := p.identify(v, q, &a)
	if err == nil && a.User != 0 {
		err = p.sameAndFresh(v, &id, &a)
	}
	var u access.User
	if err == nil {
		u, err = p.SSO.Accounts.SignOn(v.Ctx, id)
	}
	var refused *kit.Problem
	switch {
	case errors.Is(err, access.ErrNoRole):
		return p.ssoNoRole(v, &id)
	case errors.As(err, &refused):
		return p.ssoRefused(v, refused, said(q))
	case err != nil:
		return p.ssoFailed(v, err)
	}
	done()
	done() // the way there, too
	if a.User != 0 {
		return p.ssoProved(v, u)
	}
	if err := v.Begin(u); err != nil {
		return err
	}
	// The provider may have known the person for hours. What cannot be undone goes by
	// when they last proved who they are.
	v.ProvedAt(min(max(0, id.AuthTime.UnixMilli()), p.Now().UnixMilli()))
	return v.SeeOther(a.Next)
}

// identify turns the answer into who is there. A *kit.Problem is a page.
func (p *Pages) identify(v *kit.Visit, q url.Values, a *ssoAttempt) (access.Identity, error) {
	// A provider that names itself must be the one to which the browser was sent
	// (RFC 9207).
	if by := q.Get("iss"); by != "" && by != p.SSO.Issuer {
		return access.Identity{}, errSSOIdentity
	}
	code := q.Get("code")
	switch {
	case q.Get("error") != "":
		p.Logger.Info("the provider of single sign-on refused", "said", quotable(said(q)), "address", v.RealIP())
		return access.Identity{}, errSSORefused
	case code == "" || len(code) > maxCode:
		return access.Identity{}, errSSOIdentity
	}
	id, err := p.SSO.Provider.Exchange(v.Ctx, code, a.Challenge)
	if err == nil && (id.Issuer != p.SSO.Issuer || id.Subject == "") {
		err = access.ErrIdentity
	}
	return id, err
}

// said is the provider's reason for refusing.
func said(q url.Values) string {
	return strings.Trim(q.Get("error")+": "+q.Get("error_description"), ": ")
}

// sameAndFresh: who is signed in proved it to the provider since the attempt began.
func (p *Pages) sameAndFresh(v *kit.Visit, id *access.Identity, a *ssoAttempt) error {
	began := time.UnixMilli(a.At).Add(-clockSkew)
	switch {
	case id.Issuer != v.User.Issuer || id.Subject != v.User.Subject:
		p.Logger.Warn("someone else confirmed an act by single sign-on", "user", v.User.Name, "subject", id.Subject, "address", v.RealIP())
		return errSSOOther
	case id.AuthTime.Before(began):
		p.Logger.Warn("single sign-on does not say that someone has just signed in", "user", v.User.Name, "at", id.AuthTime)
		return errSSOStale
	}
	return nil
}

// ssoProved notes that who is signed in has proved it. What it was for waits in
// another window.
func (p *Pages) ssoProved(v *kit.Visit, u access.User) error {
	if err := v.Prove(); err != nil {
		return err
	}
	v.Stay(u) // with the role that it has by now
	v.User = u
	return v.Page(http.StatusOK, ssoProvedPage(v.Frame("Confirmed", "")))
}

// ssoNoRole tells someone whom the provider knows that nothing lets them in here.
// Which groups would is for the operator, in the log.
func (p *Pages) ssoNoRole(v *kit.Visit, id *access.Identity) error {
	shown := id.Groups[:min(len(id.Groups), 20)]
	p.Logger.Warn("refused to sign in by single sign-on: none of the groups has a role",
		"subject", id.Subject, "name", id.Name, "claim", p.SSO.Claim, "groups", len(id.Groups), "first", quotable(strings.Join(shown, ", ")))
	if v.User.ID != 0 && v.User.Issuer == id.Issuer && v.User.Subject == id.Subject {
		if err := v.EndSession(); err != nil {
			return err
		}
		v.User = access.User{}
	}
	why := "names none of your groups"
	if len(id.Groups) > 0 {
		why = "names your groups, but none of them has a role here"
	}
	return p.ssoRefused(v, &kit.Problem{Status: http.StatusForbidden, Title: "No role assigned",
		Detail: "You signed in, but you have no access: the provider's claim “" + p.SSO.Claim + "” " + why + ". Ask the administrator of this console or of your groups."}, "")
}
