package web

import "net/http"

// newLink makes a link by which the owner of an account chooses a password. The
// present password stays until then.
func (s *Server) newLink(v *visit) error {
	u, err := s.personOf(v)
	switch {
	case err != nil:
		return err
	case u.External():
		return errExternal
	case u.Disabled:
		return &problem{http.StatusConflict, "Disabled", "The account is kept out. Let it in again first."}
	}
	return s.showInvite(v, u)
}
