package overview

import (
	"slices"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/web/kit"
)

// begunRules is the number of rules from which on nobody needs the checklist.
const begunRules = 4

// beginCookie hides the checklist in a browser.
const beginCookie = "sluice_begun"

// hideBegin hides the checklist in this browser.
func hideBegin(v *kit.Visit) error {
	v.Remember(beginCookie, "1")
	return v.SeeOther(kit.PathHome)
}

// beginHidden reports whether this browser hides the checklist.
func beginHidden(v *kit.Visit) bool {
	c, err := v.Request().Cookie(beginCookie)
	return err == nil && c.Value == "1"
}

// Begin is the checklist of an installation that has just begun.
type Begin struct {
	// Shown is false if everything is done, or nobody needs the checklist.
	Shown bool
	// Steps are nil if nobody needs the checklist, or this browser hides it.
	Steps []Step
}

// Step is something to do.
type Step struct {
	Title, About  string
	Done, Unknown bool // Unknown ones are not shown
	// Path is where it is done, "" if that is not in the console. Role is who can do it.
	Path, Link string
	Role       access.Role
	// Offered means that the viewer of the page can do it now, Permitted that their role can.
	Offered, Permitted bool
}

// begin finds out which steps of the checklist are done. It leaves out steps whose state cannot be read.
func (p *Pages) begin(v *kit.Visit, m *Overview) Begin {
	if m.Active >= begunRules || beginHidden(v) {
		return Begin{}
	}
	listing, err := v.Browse(rules.Browse{Query: rules.Query{PageSize: 1}})
	if err != nil || listing.Total >= begunRules {
		return Begin{}
	}
	token, tokenErr := p.hasToken(v)
	colleague, colleagueErr := p.hasColleague(v)
	b := Begin{Steps: []Step{
		{Title: "Write the first rule", About: "Until then all requests pass.", Done: listing.Total > 0,
			Role: access.RoleEditor, Path: "/console/rules/new", Link: "New rule"},
		{Title: "Connect a gateway", Done: token || p.hasProfile(), Unknown: tokenErr != nil,
			About: "nginx, Caddy, HAProxy, Traefik, Envoy, APISIX, Kong, or a program of yours.",
			Role:  access.RoleAdmin, Path: kit.PathConnect, Link: "Connect a gateway"},
		{Title: "Send the first request", About: "Waiting for a gateway to ask.", Done: p.wasAsked(v, m),
			Role: access.RoleViewer},
		{Title: "Invite a colleague", About: "So that somebody else can sign in when you cannot.", Done: colleague,
			Unknown: colleagueErr != nil, Role: access.RoleAdmin, Path: "/console/people/new", Link: "New account"},
	}}
	b.Steps = slices.DeleteFunc(b.Steps, func(s Step) bool { return s.Unknown })
	for i := range b.Steps {
		b.Steps[i].Offered, b.Steps[i].Permitted = v.Offers(b.Steps[i].Role), v.User.Role.Includes(b.Steps[i].Role)
	}
	b.Shown = slices.ContainsFunc(b.Steps, func(s Step) bool { return !s.Done })
	return b
}

// hasToken reports whether a gateway has a token.
func (p *Pages) hasToken(v *kit.Visit) (bool, error) {
	all, err := p.Tokens(v.Ctx)
	return slices.ContainsFunc(all, func(t access.Token) bool {
		return t.InForce(p.Now()) == nil && t.Permits(access.ScopeCheck)
	}), err
}

// hasProfile reports whether a gateway has a profile. Some prove themselves without a token.
func (p *Pages) hasProfile() bool {
	set := p.Sets.Load()
	return set != nil && len(set.Profiles()) > 0
}

// hasColleague reports whether there is more than one account.
func (p *Pages) hasColleague(v *kit.Visit) (bool, error) {
	n, err := p.Users.CountUsers(v.Ctx)
	return n > 1, err
}

// wasAsked reports whether a request was decided in the range of the chart, or is among the samples.
func (p *Pages) wasAsked(v *kit.Visit, m *Overview) bool {
	for _, s := range m.Live.Seconds {
		if s.Total() > 0 {
			return true
		}
	}
	for i := range m.Timeline.Points {
		if f := m.Timeline.Points[i]; f.Known && f.Total() > 0 {
			return true
		}
	}
	asked, _ := p.Denials.Requests(v.Ctx, history.Filter{}, 1) // unknown is not done
	return len(asked) > 0
}
