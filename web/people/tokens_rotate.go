package people

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sluice/internal/access"
	"sluice/rules/field"
	"sluice/web/kit"
	"sluice/web/view"
)

// overlapChoices are the times for which a rotated token stays in force, in hours.
var overlapChoices = []view.Choice{{"1", "In an hour"}, {"24", "In 24 hours"}, {"168", "In 7 days"}}

// errNotRotatable is the page of access.ErrNotRotatable.
var errNotRotatable = &kit.Problem{Status: http.StatusConflict, Title: "The token cannot be rotated",
	Detail: "It was rotated already, or it has expired. Nothing was changed. Rotate the newer token of this name, or " +
		"create a new token."}

// rotateForm asks when the old token ends.
func (p *Pages) rotateForm(v *kit.Visit) error {
	t, err := p.tokenOf(v)
	switch {
	case err != nil:
		return err
	case t.ReplacedAt != nil || t.InForce(p.Now()) != nil:
		return errNotRotatable
	}
	return p.askOverlap(v, http.StatusOK, &t, view.NewForm(url.Values{"hours": {"24"}}, nil))
}

func (p *Pages) askOverlap(v *kit.Visit, status int, t *access.Token, form view.Form) error {
	return v.Page(status, rotateTokenPage(v.Frame("Rotate the token "+t.Name, kit.PathPeople), t, form))
}

// rotateToken replaces a token by a new one and shows the secret of the new one once, as createToken does.
func (p *Pages) rotateToken(v *kit.Visit, form url.Values) error {
	t, err := p.tokenOf(v)
	if err != nil {
		return err
	}
	hours, err := strconv.Atoi(form.Get("hours"))
	if err != nil || kit.OneOf(form.Get("hours"), "1", "24", "168") == "" {
		return p.askOverlap(v, http.StatusUnprocessableEntity, &t, view.NewForm(form,
			[]field.Problem{{Field: "hours", Message: "must be one of the options"}}))
	}
	secret, hash := access.NewSecret()
	old, replacement, err := p.Tokens.RotateToken(v.Ctx, v.Actor(), t.ID, hash, time.Duration(hours)*time.Hour)
	switch {
	case errors.Is(err, access.ErrNotRotatable):
		return errNotRotatable
	case err != nil:
		return err
	}
	v.WaitInForce(p.TokensChanged)
	if v.NotYetInForce {
		v.Flash("Token rotated.")
	}
	p.Logger.Info("rotated an API token", "token", old.ID, "replacement", replacement.ID, "by", v.User.Name)
	return v.Page(http.StatusOK, tokenMadePage(v.Frame("Token "+replacement.Name, kit.PathPeople),
		TokenMade{Token: &replacement, Secret: secret, Base: v.Base(), OldEnds: expiring(old.ExpiresAt)}))
}
