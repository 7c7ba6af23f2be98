// Package rulelist shows the list of rules and that of their fail modes, and changes many rules at once.
package rulelist

import (
	"net/http"

	"sluice/internal/access"
	"sluice/web/kit"
)

// Pages are the pages of the area.
type Pages struct{ *kit.Kit }

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	const viewer, editor = access.RoleViewer, access.RoleEditor
	return []kit.Route{
		{Method: http.MethodGet, Path: kit.PathRules, Role: viewer, Handle: p.list},
		{Method: http.MethodPost, Path: kit.PathRules + "/bulk", Role: editor, Handle: kit.Posted(p.bulkRules)},
		{Method: http.MethodPost, Path: kit.PathRules + "/delete", Role: editor, Reauth: deletes,
			Handle: kit.Posted(p.deleteRules)},

		{Method: http.MethodGet, Path: kit.PathFailModes, Role: viewer, Handle: p.failModes},
		{Method: http.MethodPost, Path: kit.PathFailModes + "/:id", Role: editor, Handle: kit.OnRule(p.setFailMode)},
	}
}
