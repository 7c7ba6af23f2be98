package web

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/view"
)

// newToken is the form for an API token.
func (s *Server) newToken(v *visit) error {
	return v.page(http.StatusOK, view.NewTokenPage(v.frame("New token", pathPeople), view.NewForm(url.Values{view.ScopeField(access.ScopeCheck): {"on"}, "days": {"90"}}, nil)))
}

// createToken makes an API token and shows its secret, once: the answer is the
// page itself, because a redirect would need the secret stored.
func (s *Server) createToken(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	t := access.Token{Name: form.Get("name")}
	for _, scope := range access.Scopes() {
		if form.Get(view.ScopeField(scope)) == "on" {
			t.Scopes = append(t.Scopes, scope)
		}
	}
	var fields []rules.FieldError
	days, err := strconv.Atoi(form.Get("days"))
	if err != nil || days < 0 || days > 3650 {
		fields = append(fields, rules.FieldError{Field: "days", Message: "must be one of the choices"})
	}
	if days > 0 {
		t.ExpiresAt = new(s.deps.Now().Add(time.Duration(days) * 24 * time.Hour))
	}
	if len(t.Scopes) == 0 {
		fields = append(fields, rules.FieldError{Field: "scopes", Message: "at least one is needed"})
	}
	secret := ""
	if len(fields) == 0 {
		secret, t.Hash = access.NewSecret()
		t, err = s.deps.Admin.Tokens.CreateToken(v.ctx, v.actor(), t)
		var invalid *rules.ValidationError
		switch {
		case errors.As(err, &invalid):
			fields = invalid.Fields
		case errors.Is(err, rules.ErrNameTaken):
			fields = []rules.FieldError{{Field: "name", Message: "is taken by a token in force"}}
		case err != nil:
			return err
		}
	}
	if len(fields) > 0 {
		return v.page(http.StatusUnprocessableEntity, view.NewTokenPage(v.frame("New token", pathPeople), view.NewForm(form, fields)))
	}
	s.changed(v, s.deps.Admin.Changed)
	if v.late {
		v.flash("Saved.")
	}
	s.log.Info("made an API token", "token", t, "by", v.user.Name)
	return v.page(http.StatusOK, view.TokenMadePage(v.frame("Token "+t.Name, pathPeople), view.TokenMade{Token: &t, Secret: secret, Base: s.base(v)}))
}
