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

// ssoCallback processes the provider's answer, once, in the browser that started the attempt.
func (p *Pages) ssoCallback(v *kit.Visit) error {
	if p.SSO == nil {
		return kit.ErrMissing
	}
	if v.Replica != nil {
		return p.elsewhere(v, http.StatusServiceUnavailable, kit.PathHome)
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
		err = p.checkConfirmation(v, &id, &a)
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
		return p.ssoRefused(v, refused, providerMessage(q))
	case err != nil:
		return p.ssoFailed(v, err)
	}
	done()
	done() // going there counted too
	if a.User != 0 {
		return p.ssoProved(v, u)
	}
	if err := v.Begin(u); err != nil {
		return err
	}
	// The provider may have authenticated the person hours ago. Irreversible actions depend on that time.
	v.ConfirmedAt(min(max(0, id.AuthTime.UnixMilli()), p.Now().UnixMilli()))
	return v.SeeOther(a.Next)
}

// identify turns the provider's answer into an identity. The error may be a *kit.Problem.
func (p *Pages) identify(v *kit.Visit, q url.Values, a *ssoAttempt) (access.Identity, error) {
	// A provider that names itself must be the one to which the browser was sent
	// (RFC 9207).
	if by := q.Get("iss"); by != "" && by != p.SSO.Issuer {
		return access.Identity{}, errSSOIdentity
	}
	code := q.Get("code")
	switch {
	case q.Get("error") != "":
		p.Logger.Info("the provider of single sign-on refused", "said", sanitize(providerMessage(q)), "address", v.RealIP())
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

// providerMessage is the provider's reason for rejecting the sign-in.
func providerMessage(q url.Values) string {
	return strings.Trim(q.Get("error")+": "+q.Get("error_description"), ": ")
}

// checkConfirmation returns an error unless the signed-in person authenticated at the provider since the attempt
// started.
func (p *Pages) checkConfirmation(v *kit.Visit, id *access.Identity, a *ssoAttempt) error {
	began := time.UnixMilli(a.At).Add(-clockSkew)
	switch {
	case id.Issuer != v.User.Issuer || id.Subject != v.User.Subject:
		p.Logger.Warn("someone else confirmed an act by single sign-on", "user", v.User.Name, "subject", id.Subject,
			"address", v.RealIP())
		return errSSOOther
	case id.AuthTime.Before(began):
		p.Logger.Warn("single sign-on does not say that someone has just signed in", "user", v.User.Name, "at", id.AuthTime)
		return errSSOStale
	}
	return nil
}

// ssoProved records that the person confirmed their identity. The action waits in another window.
func (p *Pages) ssoProved(v *kit.Visit, u access.User) error {
	if err := v.ConfirmIdentity(); err != nil {
		return err
	}
	v.KeepSession(u) // with its current role
	v.User = u
	return v.Page(http.StatusOK, ssoProvedPage(v.Frame("Confirmed", "")))
}

// ssoNoRole tells a person that none of their groups has a role. The log lists the groups for operators.
func (p *Pages) ssoNoRole(v *kit.Visit, id *access.Identity) error {
	shown := id.Groups[:min(len(id.Groups), 20)]
	p.Logger.Warn("refused to sign in by single sign-on: none of the groups has a role",
		"subject", id.Subject, "name", id.Name, "claim", p.SSO.Claim, "groups", len(id.Groups), "first",
		sanitize(strings.Join(shown, ", ")))
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
		Detail: "You signed in, but you have no access: the provider's claim “" + p.SSO.Claim + "” " + why +
			". Ask the administrator of this console or of your groups."}, "")
}
