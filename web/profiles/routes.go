// Package profiles shows and edits profiles, which say how the requests of gateways are read.
package profiles

import (
	"net/http"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/profile"
	"sluice/web/kit"
)

// Store stores profiles.
type Store = rules.Store[profile.Profile]

// Pages are the pages of the area.
type Pages struct {
	*kit.Kit
	Store Store
}

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	return append(kit.ObjectRoutes(kit.PathProfiles, access.RoleEditor, p.objects),
		kit.Route{Method: http.MethodGet, Path: kit.PathProfiles, Role: access.RoleViewer, Handle: p.list},
		kit.Route{Method: http.MethodGet, Path: kit.PathProfiles + "/:name", Role: access.RoleViewer, Handle: p.show})
}
