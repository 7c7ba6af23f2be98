package web

import "net/http"

// endSessions ends one of one's own sessions, all others, or all.
func (s *Server) endSessions(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	switch which := form.Get("which"); which {
	case "":
		return s.accountPage(v, http.StatusUnprocessableEntity, nil, "Say which session is to end.")
	case "all", "others":
		u, err := s.deps.Admin.People.EndSessions(v.ctx, v.actor(), v.user.ID)
		if err != nil {
			return err
		}
		if which == "all" {
			if err := s.sessions.Destroy(v.ctx); err != nil {
				return err
			}
			return v.redirect(pathSignIn)
		}
		s.sessions.Put(v.ctx, sessionGeneration, u.Generation)
		v.flash("You are signed out everywhere else.")
		return v.redirect(pathAccount)
	default:
		return s.endSession(v, which)
	}
}

// endSession ends the session that a page calls id, if it is of this account.
func (s *Server) endSession(v *visit, id string) error {
	stored, err := s.deps.Admin.People.ListSessions(v.ctx)
	if err != nil {
		return err
	}
	for i := range stored {
		if shortID(stored[i].Token) != id {
			continue
		}
		_, values, err := s.sessions.Codec.Decode(stored[i].Data)
		if err != nil || number(values[sessionUser]) != v.user.ID {
			break
		}
		if err := s.deps.Sessions.DeleteSession(v.ctx, stored[i].Token); err != nil {
			return err
		}
		break
	}
	v.flash("The session has ended.")
	return v.redirect(pathAccount)
}
