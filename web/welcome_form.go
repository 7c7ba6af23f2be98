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

var errLink = &problem{http.StatusForbidden, "This link no longer works",
	"It was used, it is over an hour old, or sluice has been restarted since. A restart prints a new one as long as there is no account; sluice user create makes an account at any time."}

// welcomeForm lets whoever holds the link of the first start make the first
// account.
func (s *Server) welcomeForm(v *visit) error {
	secret := v.QueryParam("token")
	if err := s.checkWelcome(v, secret); err != nil {
		return err
	}
	return v.page(http.StatusOK, view.WelcomePage(v.frame("Welcome", ""), secret, view.NewForm(url.Values{"name": {"admin"}}, nil)))
}

// checkWelcome: the link is good and there is no account yet.
func (s *Server) checkWelcome(v *visit, secret string) error {
	if !s.deps.Welcome.Valid(secret, s.deps.Now()) {
		return errLink
	}
	n, err := s.deps.Users.CountUsers(v.ctx)
	if err == nil && n > 0 {
		return errLink
	}
	return err
}

// welcome makes the first account, an admin, and signs it in.
func (s *Server) welcome(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	secret, name, password := form.Get("token"), strings.TrimSpace(form.Get("name")), form.Get("password")
	if err := s.checkWelcome(v, secret); err != nil {
		return err
	}
	var fields []rules.FieldError
	if err := access.CheckNewPassword(name, password); err != nil {
		fields = append(fields, rules.FieldError{Field: "password", Message: err.Error()})
	} else if password != form.Get("repeat") {
		fields = append(fields, rules.FieldError{Field: "repeat", Message: "must be the same password"})
	}
	u := access.User{Name: name, Role: access.RoleAdmin}
	status := http.StatusUnprocessableEntity
	if len(fields) == 0 {
		if status, fields, err = v.hash(&u, access.LaneStrangers, password); err != nil {
			return err
		}
	}
	if len(fields) == 0 {
		u, err = s.deps.Users.CreateUser(v.ctx, rules.Actor{Kind: "system", Name: "first start"}, u, true)
		var invalid *rules.ValidationError
		switch {
		case errors.As(err, &invalid):
			fields = invalid.Fields
		case errors.Is(err, access.ErrNotFirst):
			return errLink
		case err != nil:
			return err
		}
	}
	if len(fields) > 0 {
		return v.page(status, view.WelcomePage(v.frame("Welcome", ""), secret, view.NewForm(form, fields)))
	}
	s.deps.Welcome.Use()
	if err := v.begin(u); err != nil {
		return err
	}
	v.flash("Welcome, %s. You are the first admin; others get their accounts from you.", u.Name)
	return v.redirect(pathHome)
}
