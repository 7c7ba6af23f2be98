package people

import (
	"net/http"

	"sluice/internal/access"
	"sluice/web/kit"
	"sluice/web/view"
)

// listPeople shows every account.
func (p *Pages) listPeople(v *kit.Visit) error {
	users, err := p.People.ListUsers(v.Ctx)
	if err != nil {
		return err
	}
	sessions, err := p.allSessions(v)
	if err != nil {
		return err
	}
	m := PeopleList{}
	for i := range users {
		u := &users[i]
		m.Lines = append(m.Lines, PersonLine{User: u, Sessions: len(sessions[u.ID]), Self: u.ID == v.User.ID})
		if u.Role == access.RoleAdmin && !u.Disabled {
			m.Admins++
		}
	}
	return v.Page(http.StatusOK, peoplePage(v.Frame("People", kit.PathPeople), m))
}

// PersonLine is a row of the table of accounts.
type PersonLine struct {
	User *access.User
	// Sessions counts valid sessions.
	Sessions int
	// Self means that it is the viewer's own account.
	Self bool
}

// PeopleList is the page of accounts. Admins counts the admins who can sign in.
type PeopleList struct {
	Lines  []PersonLine
	Admins int
}

// signsInBy says how the owner of an account signs in.
func signsInBy(u *access.User) string {
	switch {
	case u.External():
		return "single sign-on"
	case u.PasswordHash == "":
		return "none yet"
	}
	return "password"
}

// roleAbout describes the permissions of a role.
func roleAbout(r access.Role) string {
	switch r {
	case access.RoleAdmin:
		return "full access, including people and tokens"
	case access.RoleEditor:
		return "view everything, change rules and reset usage"
	}
	return "view everything, change nothing"
}

// roleChoices are the roles of a form.
func roleChoices() []view.Choice {
	var out []view.Choice
	for _, r := range access.Roles() {
		out = append(out, view.Choice{string(r), string(r) + ": " + roleAbout(r)})
	}
	return out
}

func roleKind(r access.Role) string {
	if r == access.RoleAdmin {
		return "info"
	}
	return "plain"
}
