package web

import (
	"errors"
	"net/http"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/view"
)

// signInAway is shown with the form while nobody can sign in.
const signInAway = "The rules database is unreachable, so nobody can sign in until it is back. Requests are still being rate-limited."

// signInForm shows the form; who is signed in goes on.
func (s *Server) signInForm(v *visit) error {
	next := local(v.QueryParam("next"))
	if v.user.ID != 0 {
		return v.redirect(next)
	}
	n, err := s.deps.Users.CountUsers(v.ctx)
	if errors.Is(err, rules.ErrUnavailable) {
		return v.page(http.StatusServiceUnavailable, view.SignInPage(v.frame("Sign in", ""), view.SignIn{Next: next, Error: signInAway, SSO: s.ssoName()}))
	}
	if err != nil {
		return err
	}
	return v.page(http.StatusOK, view.SignInPage(v.frame("Sign in", ""), view.SignIn{Next: next, Nobody: n == 0, SSO: s.ssoName()}))
}

// signIn checks a name and a password.
func (s *Server) signIn(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	name, next := form.Get("name"), local(form.Get("next"))
	u, err := s.authenticate(v.ctx, access.LaneStrangers, name, form.Get("password"), addressOf(v.RealIP()))
	if err != nil {
		status, message := refusal(err)
		if errors.Is(err, rules.ErrUnavailable) {
			status, message = http.StatusServiceUnavailable, signInAway
		}
		if status == 0 {
			return err
		}
		v.retryAfter(err)
		return v.page(status, view.SignInPage(v.frame("Sign in", ""), view.SignIn{Name: name, Next: next, Error: message, SSO: s.ssoName()}))
	}
	if err := v.begin(u); err != nil {
		return err
	}
	return v.redirect(next)
}
