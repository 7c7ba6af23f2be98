package people

import (
	"net/http"
	"net/url"

	"sluice/internal/access"
	"sluice/web/kit"
	"sluice/web/view"
)

// person shows an account and its actions.
func (p *Pages) person(v *kit.Visit) error {
	u, err := p.personOf(v)
	if err != nil {
		return err
	}
	all, err := p.allSessions(v)
	if err != nil {
		return err
	}
	return v.Page(http.StatusOK, personPage(v.Frame(u.Name, kit.PathPeople),
		Person{User: &u, Sessions: all[u.ID], Self: u.ID == v.User.ID}))
}

// personOf is the account that the path names.
func (p *Pages) personOf(v *kit.Visit) (access.User, error) {
	id, err := v.ID("id")
	if err != nil {
		return access.User{}, err
	}
	return p.Users.GetUser(v.Ctx, id)
}

// doesTo is the kit.Act of a route with the id of an account. words stand before its name.
func (p *Pages) doesTo(words string) kit.Act {
	return func(v *kit.Visit, _ url.Values) (string, error) {
		u, err := p.personOf(v)
		return words + u.Name, err
	}
}

// changesRole names the act of changeRole.
func (p *Pages) changesRole(v *kit.Visit, form url.Values) (string, error) {
	words, err := p.doesTo("change the role of ")(v, form)
	return words + " to " + kit.Named(form.Get("role")), err
}

// changesState names the act of changeState.
func (p *Pages) changesState(v *kit.Visit, form url.Values) (string, error) {
	if form.Get("state") == "disabled" {
		return p.doesTo("disable the account ")(v, form)
	}
	return p.doesTo("enable the account ")(v, form)
}

// personPath is where the page of an account is.
func personPath(id int64) string { return kit.PathPeople + "/" + view.Digits(id) }

// changePerson edits the current version of the account in the path. If someone else changes the account at the same
// time, it fails with rules.ErrStale.
func (p *Pages) changePerson(v *kit.Visit, edit func(*access.User)) (access.User, error) {
	u, err := p.personOf(v)
	if err != nil {
		return u, err
	}
	edit(&u)
	return p.People.UpdateUser(v.Ctx, v.Actor(), u)
}

// Person is the page of one account.
type Person struct {
	User     *access.User
	Sessions []kit.SessionLine
	Self     bool
}

// newLink creates an invite link. The current password works until it is used.
func (p *Pages) newLink(v *kit.Visit) error {
	u, err := p.personOf(v)
	switch {
	case err != nil:
		return err
	case u.External():
		return kit.ErrExternal
	case u.Disabled:
		return &kit.Problem{Status: http.StatusConflict, Title: "Account disabled",
			Detail: "The account is disabled. Enable it first."}
	}
	return p.showInvite(v, u)
}

// changeRole changes the role of an account and ends its sessions.
func (p *Pages) changeRole(v *kit.Visit, form url.Values) error {
	role, err := access.ParseRole(form.Get("role"))
	if err != nil {
		return &kit.Problem{Status: http.StatusUnprocessableEntity, Title: "Invalid input",
			Detail: "The role " + err.Error() + "."}
	}
	u, err := p.changePerson(v, func(u *access.User) { u.Role = role })
	if err != nil {
		return err
	}
	v.Flash("Role of %s changed to %s. All sessions of the account were signed out.", u.Name, u.Role)
	return v.SeeOther(personPath(u.ID))
}

// signOutPerson ends the sessions of an account.
func (p *Pages) signOutPerson(v *kit.Visit) error {
	u, err := p.personOf(v)
	if err != nil {
		return err
	}
	if u, err = p.People.EndSessions(v.Ctx, v.Actor(), u.ID); err != nil {
		return err
	}
	v.Flash("All sessions of %s were signed out.", u.Name)
	return v.SeeOther(personPath(u.ID))
}

// changeState enables or disables an account.
func (p *Pages) changeState(v *kit.Visit, form url.Values) error {
	disable := form.Get("state") == "disabled"
	if !disable && form.Get("state") != "enabled" {
		return &kit.Problem{Status: http.StatusUnprocessableEntity, Title: "Invalid input",
			Detail: "The state must be enabled or disabled."}
	}
	if disable && personPath(v.User.ID) == kit.PathPeople+"/"+v.Param("id") {
		return &kit.Problem{Status: http.StatusConflict, Title: "Your own account",
			Detail: "You cannot disable your own account. Another administrator can."}
	}
	u, err := p.changePerson(v, func(u *access.User) { u.Disabled = disable })
	if err != nil {
		return err
	}
	if disable {
		v.Flash("Account %s disabled. Its sessions were signed out.", u.Name)
	} else {
		v.Flash("Account %s enabled.", u.Name)
	}
	return v.SeeOther(personPath(u.ID))
}
