package web

import (
	"net/http"

	"sluice/internal/access"
	"sluice/web/view"
)

// listPeople shows every account.
func (s *Server) listPeople(v *visit) error {
	users, err := s.deps.Admin.People.ListUsers(v.ctx)
	if err != nil {
		return err
	}
	sessions, err := s.allSessions(v)
	if err != nil {
		return err
	}
	m := view.PeopleList{}
	for i := range users {
		u := &users[i]
		m.Lines = append(m.Lines, view.PersonLine{User: u, Sessions: len(sessions[u.ID]), Self: u.ID == v.user.ID})
		if u.Role == access.RoleAdmin && !u.Disabled {
			m.Admins++
		}
	}
	return v.page(http.StatusOK, view.PeoplePage(v.frame("People", pathPeople), m))
}
