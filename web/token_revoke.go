package web

import "strconv"

// revokeToken ends an API token for good.
func (s *Server) revokeToken(v *visit) error {
	id, err := strconv.ParseInt(v.Param("id"), 10, 64)
	if err != nil {
		return errMissing
	}
	if err := s.deps.Admin.Tokens.RevokeToken(v.ctx, v.actor(), id); err != nil {
		return err
	}
	s.changed(v, s.deps.Admin.Changed)
	s.log.Info("revoked an API token", "token", id, "by", v.user.Name)
	v.flash("Token revoked. Requests that present it are refused.")
	return v.redirect(pathTokens)
}
