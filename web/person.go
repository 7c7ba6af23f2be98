package web

import (
	"net/http"
	"strconv"

	"sluice/internal/access"
	"sluice/web/view"
)

// person shows one account and what can be done with it.
func (s *Server) person(v *visit) error {
	u, err := s.personOf(v)
	if err != nil {
		return err
	}
	all, err := s.allSessions(v)
	if err != nil {
		return err
	}
	return v.page(http.StatusOK, view.PersonPage(v.frame(u.Name, pathPeople), view.Person{User: &u, Sessions: all[u.ID], Self: u.ID == v.user.ID}))
}

// personOf is the account that the path names.
func (s *Server) personOf(v *visit) (access.User, error) {
	id, err := strconv.ParseInt(v.Param("id"), 10, 64)
	if err != nil {
		return access.User{}, errMissing
	}
	return s.deps.Users.GetUser(v.ctx, id)
}

// personPath is where the page of an account is.
func personPath(id int64) string { return pathPeople + "/" + strconv.FormatInt(id, 10) }

// changePerson edits the account of the path as it is now; what someone else
// does meanwhile makes it stale rather than lost.
func (s *Server) changePerson(v *visit, edit func(*access.User)) (access.User, error) {
	u, err := s.personOf(v)
	if err != nil {
		return u, err
	}
	edit(&u)
	return s.deps.Admin.People.UpdateUser(v.ctx, v.actor(), u)
}
