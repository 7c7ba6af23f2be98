// Package ruleedit is the editor of a rule, as a form or as YAML. A preview shows what the rule would do. People who
// edit a rule at the same time merge their changes.
package ruleedit

import (
	"net/http"
	"net/url"

	"github.com/a-h/templ"

	"sluice/internal/access"
	"sluice/limiter"
	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/view"
)

// Pages are the pages of the area.
type Pages struct {
	*kit.Kit
	// Headers returns the response headers that the editor shows.
	Headers HeadersOf
	Replay  Replay
}

// HeadersOf returns the response headers for a decision of a rule by a limit, at a time in ms since the epoch.
type HeadersOf func(r *rules.Rule, l limiter.Limit, d limiter.Decision, at int64) []Header

// Replay tries an edited rule on recorded traffic.
type Replay interface {
	// Card is the part of the editor that starts a replay. Its fields belong to the editor's form.
	Card(f view.Form) templ.Component
	// Start starts the replay of a rule and returns the address of its page, which leads back to the form. The ID of a new
	// rule is 0. The editor shows an error that is a *kit.Problem or a *field.ValidationError.
	Start(v *kit.Visit, edited *rules.Rule, form url.Values) (address string, err error)
}

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	const editor = access.RoleEditor
	return []kit.Route{
		{Method: http.MethodGet, Path: kit.PathRules + "/new", Role: editor, Form: true, Handle: p.newRule},
		{Method: http.MethodPost, Path: kit.PathRules, Role: editor, Handle: p.createRule},
		{Method: http.MethodPost, Path: kit.PathRules + "/preview", Role: editor, Offline: true, Handle: p.previewRule},
		{Method: http.MethodPost, Path: kit.PathReplay, Role: editor, Offline: true, Handle: p.startReplay},
		{Method: http.MethodGet, Path: kit.PathRule + "/edit", Role: editor, Form: true, Handle: kit.WithRule(p.editRule)},
		{Method: http.MethodPost, Path: kit.PathRule, Role: editor, Handle: p.updateRule},
	}
}
