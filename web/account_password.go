package web

import (
	"net/http"

	"sluice/internal/access"
	"sluice/rules"
)

// changePassword gives who is signed in another password, against the present
// one. Every other session of the account ends.
func (s *Server) changePassword(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	if v.user.PasswordHash == "" {
		return s.accountPage(v, http.StatusConflict, nil, "This account has no password here; it signs in elsewhere.")
	}
	if _, err := s.authenticate(v.ctx, access.LaneSignedIn, v.user.Name, form.Get("current"), addressOf(v.RealIP())); err != nil {
		status, message := refusal(err)
		if status == 0 {
			return err
		}
		v.retryAfter(err)
		if status == http.StatusUnprocessableEntity {
			message = "is not your present password"
		}
		return s.accountPage(v, status, []rules.FieldError{{Field: "current", Message: message}}, "")
	}
	password := form.Get("password")
	if fields := checkPassword("password", v.user.Name, password, form.Get("repeat")); len(fields) > 0 {
		return s.accountPage(v, http.StatusUnprocessableEntity, fields, "")
	}
	u := v.user
	status, fields, err := v.hash(&u, access.LaneSignedIn, password)
	if err != nil {
		return err
	}
	if len(fields) > 0 {
		return s.accountPage(v, status, fields, "")
	}
	if u, err = s.deps.Admin.People.UpdateUser(v.ctx, v.actor(), u); err != nil {
		return err
	}
	if err := v.begin(u); err != nil { // the present session goes on, under another secret
		return err
	}
	v.flash("Your password is changed. Every other session has ended.")
	return v.redirect(pathAccount)
}
