package signin

import (
	"net/http"

	"sluice/internal/access"
	"sluice/web/kit"
)

// ssoStart starts an attempt. It is a POST, which other sites cannot make a browser send. It answers with a page that
// redirects, because the Content-Security-Policy of the form's page forbids a redirect of the form to another site.
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

// ssoGo redirects the browser to the provider with the current attempt. It changes nothing, so it can be repeated.
func (p *Pages) ssoGo(v *kit.Visit) error {
	if p.SSO == nil {
		return kit.ErrMissing
	}
	a, found := p.currentAttempt(v)
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
