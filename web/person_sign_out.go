package web

// signOutPerson ends the sessions of an account.
func (s *Server) signOutPerson(v *visit) error {
	u, err := s.personOf(v)
	if err != nil {
		return err
	}
	if u, err = s.deps.Admin.People.EndSessions(v.ctx, v.actor(), u.ID); err != nil {
		return err
	}
	v.flash("%s is signed out everywhere.", u.Name)
	return v.redirect(personPath(u.ID))
}
