package web

// signOut ends the session, if there is one.
func (s *Server) signOut(v *visit) error {
	if err := s.sessions.Destroy(v.ctx); err != nil {
		return err
	}
	return v.redirect(pathSignIn)
}
