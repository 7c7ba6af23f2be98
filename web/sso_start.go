package web

import (
	"net/http"

	"sluice/internal/access"
	"sluice/web/view"
)

// ssoStart begins an attempt and leads towards the provider. It is a POST, which
// no other site can make a browser send. And it answers with a page that goes on by
// itself: a redirect to another site would be one of a form, which the policy of the
// page with the form forbids.
func (s *Server) ssoStart(v *visit) error {
	if s.deps.SSO == nil {
		return errMissing
	}
	form, err := v.form()
	if err != nil {
		return err
	}
	a := ssoAttempt{At: s.deps.Now().UnixMilli(), Next: local(form.Get("next"))}
	again := form.Get("again") != ""
	if again {
		if !v.user.External() {
			return v.toSignIn()
		}
		a.User = v.user.ID
	}
	a.Challenge = access.NewChallenge(again)
	if _, err := s.admit(v.ctx, ssoAsks(addressOf(v.RealIP())), "address", v.RealIP()); err != nil {
		return s.ssoFailed(v, err)
	}
	if _, err := s.deps.SSO.Provider.AuthURL(v.ctx, a.Challenge); err != nil {
		return s.ssoFailed(v, err)
	}
	if err := v.putAttempt(a); err != nil {
		return err
	}
	v.Response().Header().Set("Refresh", "0; url="+pathSSOGo)
	return v.page(http.StatusOK, view.SSOLeavePage(v.frame("Sign in", ""), s.ssoName()))
}
