package web

// signOut ends the session, if there is one.
func (s *Server) signOut(v *visit) error {
	if v.user.ID != 0 {
		s.log.Info("signed out of the console", "user", v.actor().Name)
	}
	if err := s.sessions.Destroy(v.ctx); err != nil {
		return err
	}
	return v.redirect(pathSignIn)
}
