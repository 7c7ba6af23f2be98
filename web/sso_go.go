package web

import "net/http"

// ssoGo sends the browser to the provider with the attempt under way. It changes
// nothing, so it may be asked for again.
func (s *Server) ssoGo(v *visit) error {
	if s.deps.SSO == nil {
		return errMissing
	}
	a, found := v.attemptNow()
	if !found {
		return v.redirect(pathSignIn)
	}
	to, err := s.deps.SSO.Provider.AuthURL(v.ctx, a.Challenge)
	if err != nil {
		return s.ssoFailed(v, err)
	}
	if err := v.saveSession(); err != nil {
		return err
	}
	return v.Redirect(http.StatusSeeOther, to)
}
