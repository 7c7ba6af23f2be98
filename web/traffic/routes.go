// Package traffic shows what was decided over time, and which rules, keys, routes, tenants and nodes made the traffic.
package traffic

import (
	"net/http"

	"sluice/internal/access"
	"sluice/web/kit"
)

// Pages are the pages of the area.
type Pages struct{ *kit.Kit }

// pathCSV is the download of what the page shows.
const pathCSV = kit.PathTraffic + ".csv"

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	return []kit.Route{
		{Method: http.MethodGet, Path: kit.PathTraffic, Role: access.RoleViewer, Handle: p.show},
		{Method: http.MethodGet, Path: pathCSV, Role: access.RoleViewer, Handle: p.download},
	}
}
