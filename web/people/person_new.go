package people

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/web/kit"
	"sluice/web/view"
)

// Ways to set the password of a new account.
const (
	byLink     = "link"
	byPassword = "password"
)

// newPerson is the form for an account.
func (p *Pages) newPerson(v *kit.Visit) error {
	return v.Page(http.StatusOK, newPersonPage(v.Frame("New account", kit.PathPeople),
		view.NewForm(url.Values{"role": {string(access.RoleViewer)}, "by": {byLink}}, nil)))
}

// creates names the act of createPerson.
func creates(_ *kit.Visit, form url.Values) (string, error) {
	return "create the account " + kit.Named(form.Get("name")), nil
}

// createPerson creates an account with a password or an invite link.
func (p *Pages) createPerson(v *kit.Visit, form url.Values) error {
	name, password := strings.TrimSpace(form.Get("name")), form.Get("password")
	u := access.User{Name: name}
	var fields []field.Problem
	var err error
	if u.Role, err = access.ParseRole(form.Get("role")); err != nil {
		fields = append(fields, field.Problem{Field: "role", Message: err.Error()})
	}
	switch form.Get("by") {
	case byLink:
	case byPassword:
		fields = append(fields, kit.CheckPassword("password", name, password, password)...)
	default:
		fields = append(fields, field.Problem{Field: "by", Message: "must be an invite link or a password"})
	}
	status := http.StatusUnprocessableEntity
	if len(fields) == 0 && form.Get("by") == byPassword {
		if status, fields, err = v.Hash(&u, access.LaneSignedIn, password); err != nil {
			return err
		}
	}
	if len(fields) == 0 {
		u, err = p.Users.CreateUser(v.Ctx, v.Actor(), u, false)
		switch {
		case kit.FieldsOf(err) != nil:
			fields = kit.FieldsOf(err)
		case errors.Is(err, rules.ErrNameTaken):
			fields = []field.Problem{{Field: "name", Message: "is already in use"}}
		case err != nil:
			return err
		}
	}
	if len(fields) > 0 {
		form.Del("password")
		return v.Page(status, newPersonPage(v.Frame("New account", kit.PathPeople), view.NewForm(form, fields)))
	}
	p.Logger.Info("made an account", "user", u.Name, "role", string(u.Role), "by", v.User.Name)
	if form.Get("by") == byPassword {
		v.Flash("Account %s created with the role %s.", u.Name, u.Role)
		return v.SeeOther(kit.PathPeople)
	}
	return p.showInvite(v, u)
}
