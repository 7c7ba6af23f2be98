package web

import (
	"errors"
	"net/http"
	"time"

	"sluice/internal/access"
	"sluice/rules"
)

// signOut ends the session, if there is one.
func (s *Server) signOut(v *visit) error {
	if v.user.ID != 0 {
		s.log.Info("signed out of the console", "user", v.actor().Name)
	}
	err := s.sessions.Destroy(v.ctx)
	if errors.Is(err, rules.ErrUnavailable) {
		// This node remembers that the session has ended.
		s.sessions.WriteSessionCookie(v.ctx, v.Response(), "", time.Time{})
		v.user, v.offline = access.User{}, true
		why := "The rules database is unreachable"
		if errors.Is(err, rules.ErrBusy) {
			why = "Another change is being written, such as a large import"
		}
		return &problem{
			http.StatusServiceUnavailable, "Signed out in this browser",
			why + ", so the session could not be ended on the other nodes. It opens nothing here any more.",
		}
	}
	if err != nil {
		return err
	}
	return v.redirect(pathSignIn)
}
