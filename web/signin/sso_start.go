package signin

import (
	"net/http"

	"sluice/internal/access"
	"sluice/web/kit"
)

// ssoStart begins an attempt and leads towards the provider. It is a POST, which
// no other site can make a browser send. And it answers with a page that goes on by
// itself: a redirect to another site would be one of a form, which the policy of the
// page with the form forbids.
func (p *Pages) ssoStart(v *kit.Visit) error {
	if p.SSO == nil {
		return kit.ErrMissing
	}
	form, err := v.Form()
	if err != nil {
		return err
	}
	a := ssoAttempt{At: p.Now().UnixMilli(), Next: kit.Local(form.Get("next"))}
	again := form.Get("again") != ""
	if again {
		if !v.User.External() {
			return v.ToSignIn()
		}
		a.User = v.User.ID
	}
	a.Challenge = access.NewChallenge(again)
	if _, err := v.AdmitSignOn(); err != nil {
		return p.ssoFailed(v, err)
	}
	if _, err := p.SSO.Provider.AuthURL(v.Ctx, a.Challenge); err != nil {
		return p.ssoFailed(v, err)
	}
	if err := putAttempt(v, a); err != nil {
		return err
	}
	v.Response().Header().Set("Refresh", "0; url="+pathSSOGo)
	return v.Page(http.StatusOK, ssoLeavePage(v.Frame("Sign in", ""), p.SSOName()))
}

// ssoGo sends the browser to the provider with the attempt under way. It changes
// nothing, so it may be asked for again.
func (p *Pages) ssoGo(v *kit.Visit) error {
	if p.SSO == nil {
		return kit.ErrMissing
	}
	a, found := p.attemptNow(v)
	if !found {
		return v.SeeOther(kit.PathSignIn)
	}
	to, err := p.SSO.Provider.AuthURL(v.Ctx, a.Challenge)
	if err != nil {
		return p.ssoFailed(v, err)
	}
	if err := v.Save(); err != nil {
		return err
	}
	return v.Redirect(http.StatusSeeOther, to)
}
