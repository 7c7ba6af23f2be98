// Package overview shows how the fleet does: the home page, the busiest keys, and
// what this node runs with.
package overview

import (
	"net/http"

	"github.com/a-h/templ"

	"sluice/internal/access"
	"sluice/web/kit"
)

// Pages are the pages of the area. Every field must be given.
type Pages struct {
	*kit.Kit
	// Settings is what this node runs with, without secrets.
	Settings func() []SettingGroup
	// Watching: this node looks for hot keys.
	Watching bool
}

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	return []kit.Route{
		{Method: http.MethodGet, Path: kit.PathHome, Role: access.RoleViewer, Handle: p.overview},
		{Method: http.MethodGet, Path: kit.PathHotKeys, Role: access.RoleViewer, Handle: p.hotKeys},
		{Method: http.MethodGet, Path: kit.PathSettings, Role: access.RoleViewer, Handle: p.settings},
	}
}

// Feed is what moves on the home page.
func (p *Pages) Feed(v *kit.Visit) kit.Feed {
	return func() templ.Component { return overviewParts(p.live(v)) }
}
