package web

import (
	"net/http"

	"sluice/internal/access"
)

// changeState keeps an account out, or lets it in again.
func (s *Server) changeState(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	disable := form.Get("state") == "disabled"
	if !disable && form.Get("state") != "enabled" {
		return &problem{http.StatusUnprocessableEntity, "Not valid", "The state must be enabled or disabled."}
	}
	if disable && personPath(v.user.ID) == pathPeople+"/"+v.Param("id") {
		return &problem{http.StatusConflict, "That is you", "You cannot keep yourself out. Another admin can."}
	}
	u, err := s.changePerson(v, func(u *access.User) { u.Disabled = disable })
	if err != nil {
		return err
	}
	if disable {
		v.flash("%s is kept out, and signed out everywhere.", u.Name)
	} else {
		v.flash("%s may sign in again.", u.Name)
	}
	return v.redirect(personPath(u.ID))
}
