package people

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sluice/internal/access"
	"sluice/rules/field"
	"sluice/web/kit"
	"sluice/web/view"
)

// account shows your own account.
func (p *Pages) account(v *kit.Visit) error { return p.accountPage(v, http.StatusOK, nil, "") }

func (p *Pages) accountPage(v *kit.Visit, status int, fields []field.Problem, message string) error {
	all, err := p.allSessions(v)
	if err != nil {
		return err
	}
	m := Account{User: &v.User, Sessions: all[v.User.ID], Form: view.NewForm(nil, fields), Problem: message,
		CanChange: v.CanChange(access.RoleViewer)}
	return v.Page(status, accountPage(v.Frame("Your account", ""), m))
}

// allSessions are the valid sessions by account, newest first.
func (p *Pages) allSessions(v *kit.Visit) (map[int64][]kit.SessionLine, error) {
	users, err := p.People.ListUsers(v.Ctx)
	if err != nil {
		return nil, err
	}
	generations := make(map[int64]int64, len(users))
	for i := range users {
		if !users[i].Disabled {
			generations[users[i].ID] = users[i].Generation
		}
	}
	stored, err := p.People.ListSessions(v.Ctx)
	if err != nil {
		return nil, err
	}
	out := map[int64][]kit.SessionLine{}
	for i := range stored {
		if strings.HasPrefix(stored[i].Token, invitePrefix) {
			continue
		}
		line, ok := v.ReadSession(&stored[i])
		if !ok || line.User == 0 || generations[line.User] != line.Generation {
			continue // a session of another version expires
		}
		out[line.User] = append(out[line.User], line)
	}
	for _, lines := range out {
		slices.SortFunc(lines, func(a, b kit.SessionLine) int {
			return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(a.ID, b.ID))
		})
	}
	return out, nil
}

// Account is the page of one's own account.
type Account struct {
	User     *access.User
	Sessions []kit.SessionLine
	Form     view.Form
	Problem  string
	// CanChange means that the password and the sessions can be changed here now.
	CanChange bool
}

// changePassword sets a new password after checking the current one. All other sessions of the account end.
func (p *Pages) changePassword(v *kit.Visit, form url.Values) error {
	if v.User.PasswordHash == "" {
		return p.accountPage(v, http.StatusConflict, nil,
			"This account signs in with single sign-on and has no password here.")
	}
	if err := v.ConfirmPassword(form.Get("current")); err != nil {
		status, message := kit.Refusal(err)
		if status == 0 {
			return err
		}
		v.RetryAfter(err)
		if status == http.StatusUnprocessableEntity {
			message = "is not your current password"
		}
		return p.accountPage(v, status, []field.Problem{{Field: "current", Message: message}}, "")
	}
	password := form.Get("password")
	if fields := kit.CheckPassword("password", v.User.Name, password, form.Get("repeat")); len(fields) > 0 {
		return p.accountPage(v, http.StatusUnprocessableEntity, fields, "")
	}
	u := v.User
	status, fields, err := v.Hash(&u, access.LaneSignedIn, password)
	if err != nil {
		return err
	}
	if len(fields) > 0 {
		return p.accountPage(v, status, fields, "")
	}
	if u, err = p.People.UpdateUser(v.Ctx, v.Actor(), u); err != nil {
		return err
	}
	if err := v.Begin(u); err != nil { // this session continues with a new secret
		return err
	}
	v.Flash("Password changed. All other sessions were signed out.")
	return v.SeeOther(pathAccount)
}

// endSessions ends one session of your own account, all others, or all.
func (p *Pages) endSessions(v *kit.Visit, form url.Values) error {
	switch which := form.Get("which"); which {
	case "":
		return p.accountPage(v, http.StatusUnprocessableEntity, nil, "Choose a session to sign out.")
	case "all", "others":
		u, err := p.People.EndSessions(v.Ctx, v.Actor(), v.User.ID)
		if err != nil {
			return err
		}
		if which == "all" {
			if err := v.EndSession(); err != nil {
				return err
			}
			return v.SeeOther(kit.PathSignIn)
		}
		v.KeepSession(u)
		v.Flash("All other sessions were signed out.")
		return v.SeeOther(pathAccount)
	default:
		return p.endSession(v, which)
	}
}

// endSession ends the session with an ID from the page, if it is of this account.
func (p *Pages) endSession(v *kit.Visit, id string) error {
	stored, err := p.People.ListSessions(v.Ctx)
	if err != nil {
		return err
	}
	for i := range stored {
		line, ok := v.ReadSession(&stored[i])
		if !ok || line.ID != id || line.User != v.User.ID {
			continue
		}
		if err := p.Sessions.DeleteSession(v.Ctx, stored[i].Token); err != nil {
			return err
		}
		break
	}
	v.Flash("Session signed out.")
	return v.SeeOther(pathAccount)
}
