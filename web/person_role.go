package web

import (
	"net/http"

	"sluice/internal/access"
)

// changeRole gives an account another role; its sessions end.
func (s *Server) changeRole(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	role, err := access.ParseRole(form.Get("role"))
	if err != nil {
		return &problem{http.StatusUnprocessableEntity, "Not valid", "The role " + err.Error() + "."}
	}
	u, err := s.changePerson(v, func(u *access.User) { u.Role = role })
	if err != nil {
		return err
	}
	v.flash("%s is %s now and has to sign in again.", u.Name, u.Role)
	return v.redirect(personPath(u.ID))
}
