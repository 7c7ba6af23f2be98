package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/view"
)

// How a new account gets its password.
const (
	byLink     = "link"
	byPassword = "password"
)

// newPerson is the form for an account.
func (s *Server) newPerson(v *visit) error {
	return v.page(http.StatusOK, view.NewPersonPage(v.frame("New account", pathPeople), view.NewForm(url.Values{"role": {string(access.RoleViewer)}, "by": {byLink}}, nil)))
}

// createPerson makes an account, with a password or with a link that lets its
// owner choose one.
func (s *Server) createPerson(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	name, password := strings.TrimSpace(form.Get("name")), form.Get("password")
	u := access.User{Name: name}
	var fields []rules.FieldError
	if u.Role, err = access.ParseRole(form.Get("role")); err != nil {
		fields = append(fields, rules.FieldError{Field: "role", Message: err.Error()})
	}
	switch form.Get("by") {
	case byLink:
	case byPassword:
		fields = append(fields, checkPassword("password", name, password, password)...)
	default:
		fields = append(fields, rules.FieldError{Field: "by", Message: "must be a link or a password"})
	}
	status := http.StatusUnprocessableEntity
	if len(fields) == 0 && form.Get("by") == byPassword {
		if status, fields, err = v.hash(&u, access.LaneSignedIn, password); err != nil {
			return err
		}
	}
	if len(fields) == 0 {
		u, err = s.deps.Users.CreateUser(v.ctx, v.actor(), u, false)
		var invalid *rules.ValidationError
		switch {
		case errors.As(err, &invalid):
			fields = invalid.Fields
		case errors.Is(err, rules.ErrNameTaken):
			fields = []rules.FieldError{{Field: "name", Message: "is taken"}}
		case err != nil:
			return err
		}
	}
	if len(fields) > 0 {
		form.Del("password")
		return v.page(status, view.NewPersonPage(v.frame("New account", pathPeople), view.NewForm(form, fields)))
	}
	s.log.Info("made an account", "user", u.Name, "role", string(u.Role), "by", v.user.Name)
	if form.Get("by") == byPassword {
		v.flash("%s can sign in now, as %s.", u.Name, u.Role)
		return v.redirect(pathPeople)
	}
	return s.showInvite(v, u)
}

// hash gives an account, not yet stored, the hash of its new password. While too
// many wait for theirs it gives nothing, and says with which status and errors the
// form is shown again.
func (v *visit) hash(u *access.User, lane access.Lane, password string) (status int, fields []rules.FieldError, err error) {
	u.PasswordHash, err = v.server.deps.Passwords.HashPassword(v.ctx, lane, password)
	if !errors.Is(err, access.ErrBusy) {
		return http.StatusUnprocessableEntity, nil, err
	}
	v.retryAfter(err)
	return http.StatusServiceUnavailable, []rules.FieldError{{Field: "password", Message: busy}}, nil
}

// checkPassword finds what is wrong with a password and its repetition.
func checkPassword(field, name, password, repeat string) []rules.FieldError {
	if err := access.CheckNewPassword(name, password); err != nil {
		return []rules.FieldError{{Field: field, Message: err.Error()}}
	}
	if password != repeat {
		return []rules.FieldError{{Field: "repeat", Message: "must be the same password"}}
	}
	return nil
}
