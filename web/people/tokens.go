package people

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/web/kit"
	"sluice/web/view"
)

// listTokens shows the active API tokens, and the expired or revoked ones.
func (p *Pages) listTokens(v *kit.Visit) error {
	tokens, err := p.Tokens.ListTokens(v.Ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(tokens, func(a, b access.Token) int { return b.CreatedAt.Compare(a.CreatedAt) })
	now, m := p.Now(), TokenList{Now: p.Now(), Regions: p.Node().Region != ""}
	for i := range tokens {
		if tokens[i].InForce(now) == nil {
			m.Live = append(m.Live, tokens[i])
		} else {
			m.Ended = append(m.Ended, tokens[i])
		}
	}
	return v.Page(http.StatusOK, tokensPage(v.Frame("API tokens", kit.PathPeople), m))
}

// TokenList is the page of API tokens.
type TokenList struct {
	Live, Ended []access.Token
	Now         time.Time
	// Regions means that other regions may use the tokens.
	Regions bool
}

// usePrecision says how exact the last use is.
func (m *TokenList) usePrecision() string {
	text := "The last use is exact to about a minute: each node writes it at most once a minute."
	if m.Regions {
		text += " Regions with a read replica do not write it."
	}
	return text
}

// revokeAbout says before a token is revoked what ends with it.
func revokeAbout(t *access.Token) string {
	return "Its calls are rejected at once. That cannot be undone. " + t.CreatedBy + " created the token for: " +
		access.FormatScopes(t.Scopes) + "."
}

// expiring is an expiry as a time; the zero time means never.
func expiring(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// newToken is the form for an API token.
func (p *Pages) newToken(v *kit.Visit) error {
	return v.Page(http.StatusOK, newTokenPage(v.Frame("New token", kit.PathPeople),
		view.NewForm(url.Values{scopeField(access.ScopeCheck): {"on"}, "days": {"90"}}, nil)))
}

// createsToken names the act of createToken.
func createsToken(_ *kit.Visit, form url.Values) (string, error) {
	return "create the token " + kit.Named(form.Get("name")), nil
}

// doesToToken is the kit.Act of a route with the id of a token.
func (p *Pages) doesToToken(verb string) kit.Act {
	return func(v *kit.Visit, _ url.Values) (string, error) {
		t, err := p.tokenOf(v)
		return verb + " the token " + t.Name, err
	}
}

// tokenOf is the token of the path, unless it was revoked.
func (p *Pages) tokenOf(v *kit.Visit) (access.Token, error) {
	id, err := v.ID("id")
	if err != nil {
		return access.Token{}, err
	}
	list, err := p.Tokens.ListTokens(v.Ctx)
	if err != nil {
		return access.Token{}, err
	}
	for i := range list {
		if list[i].ID == id && list[i].RevokedAt == nil {
			return list[i], nil
		}
	}
	return access.Token{}, rules.ErrNotFound
}

// createToken creates an API token and shows its secret once. The answer is the page itself, because a redirect would
// have to store the secret.
func (p *Pages) createToken(v *kit.Visit, form url.Values) error {
	t := access.Token{Name: form.Get("name")}
	for _, scope := range access.Scopes() {
		if form.Get(scopeField(scope)) == "on" {
			t.Scopes = append(t.Scopes, scope)
		}
	}
	var fields []field.Problem
	days, err := strconv.Atoi(form.Get("days"))
	if err != nil || days < 0 || days > 3650 {
		fields = append(fields, field.Problem{Field: "days", Message: "must be one of the options"})
	}
	if days > 0 {
		t.ExpiresAt = new(p.Now().Add(time.Duration(days) * 24 * time.Hour))
	}
	if len(t.Scopes) == 0 {
		fields = append(fields, field.Problem{Field: "scopes", Message: "Select at least one scope."})
	}
	secret := ""
	if len(fields) == 0 {
		secret, t.Hash = access.NewSecret()
		t, err = p.Tokens.CreateToken(v.Ctx, v.Actor(), t)
		switch {
		case kit.FieldsOf(err) != nil:
			fields = kit.FieldsOf(err)
		case errors.Is(err, rules.ErrNameTaken):
			fields = []field.Problem{{Field: "name", Message: "is already used by an active token"}}
		case err != nil:
			return err
		}
	}
	if len(fields) > 0 {
		return v.Page(http.StatusUnprocessableEntity,
			newTokenPage(v.Frame("New token", kit.PathPeople), view.NewForm(form, fields)))
	}
	v.WaitInForce(p.TokensChanged)
	if v.NotYetInForce {
		v.Flash("Token created.")
	}
	p.Logger.Info("made an API token", "token", t, "by", v.User.Name)
	return v.Page(http.StatusOK, tokenMadePage(v.Frame("Token "+t.Name, kit.PathPeople),
		TokenMade{Token: &t, Secret: secret, Base: v.Base()}))
}

// TokenMade shows the secret of a new token, once. Base is where the API is.
type TokenMade struct {
	Token        *access.Token
	Secret, Base string
	// OldEnds is when the token that it replaces ends; zero for a token that replaces none.
	OldEnds time.Time
}

// tokenURL is the address of an act on a token.
func tokenURL(t *access.Token, act string) templ.SafeURL {
	return templ.SafeURL(pathTokens + "/" + view.Digits(t.ID) + act)
}

// tokenSample is a command that a token may send, "" if none is short.
func tokenSample(t *access.Token, base string) string {
	switch {
	case t.Permits(access.ScopeCheck):
		return view.CheckSample(base)
	case t.Permits(access.ScopeRulesRead):
		return view.RulesSample(base)
	}
	return ""
}

// scopeField is the name of the checkbox for a scope.
func scopeField(s access.Scope) string { return "scope_" + strings.ReplaceAll(string(s), ":", "_") }

func scopeAbout(s access.Scope) string {
	switch s {
	case access.ScopeCheck:
		return "Check requests. This is what a gateway needs."
	case access.ScopeCounters:
		return "Reset usage, and refund without naming a request."
	case access.ScopeDeferred:
		return "Release and acknowledge deferred requests, with their payloads."
	case access.ScopeRegions:
		return "Tell what another region has spent. Only servers of other regions need it."
	case access.ScopeRulesRead:
		return "Read rules, overrides, pools and metrics; explain requests."
	case access.ScopeRulesWrite:
		return "Change rules, overrides and pools. Includes rules:read."
	case access.ScopeAdmin:
		return "All of the above."
	}
	return ""
}

var expiryChoices = []view.Choice{{"7", "In a week"}, {"30", "In 30 days"}, {"90", "In 90 days"}, {"365", "In a year"},
	{"0", "Never"}}

// revokeToken revokes an API token.
func (p *Pages) revokeToken(v *kit.Visit) error {
	id, err := v.ID("id")
	if err != nil {
		return err
	}
	if err := p.Tokens.RevokeToken(v.Ctx, v.Actor(), id); err != nil {
		return err
	}
	v.WaitInForce(p.TokensChanged)
	p.Logger.Info("revoked an API token", "token", id, "by", v.User.Name)
	v.Flash("Token revoked. Requests using this token are now rejected.")
	return v.SeeOther(pathTokens)
}
