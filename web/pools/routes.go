// Package pools shows and edits pools, the capacity that rules share.
package pools

import (
	"context"
	"net/http"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/web/kit"
)

// Deps is what the area needs besides the kit. Every field is required.
type Deps struct {
	Store rules.Store[rules.Pool]
	// State returns the state of a pool, without charging anything.
	State func(ctx context.Context, p *match.CompiledPool) State
}

// Pages are the pages of the area.
type Pages struct {
	*kit.Kit
	Deps
}

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	return append(kit.ObjectRoutes(kit.PathPools, access.RoleEditor, p.objects),
		kit.Route{Method: http.MethodGet, Path: kit.PathPools, Role: access.RoleViewer, Handle: p.list})
}
