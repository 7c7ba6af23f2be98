// Package profiles shows and edits profiles, which say how the requests of gateways are read.
package profiles

import (
	"context"
	"net/http"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/kit"
)

// Store stores profiles. ifVersion is the version that the page showed. Errors wrap rules.ErrNotFound, ErrNameTaken,
// ErrStale or ErrUnavailable, or are a *rules.ValidationError.
type Store interface {
	ListProfiles(ctx context.Context) ([]rules.Profile, error)
	GetProfile(ctx context.Context, name string) (rules.Profile, error)
	CreateProfile(ctx context.Context, actor rules.Actor, p rules.Profile) (rules.Profile, error)
	UpdateProfile(ctx context.Context, actor rules.Actor, p rules.Profile, ifVersion int64) (rules.Profile, error)
	DeleteProfile(ctx context.Context, actor rules.Actor, name string, ifVersion int64) error
}

// Pages are the pages of the area.
type Pages struct {
	*kit.Kit
	Store Store
}

const pathProfile = kit.PathProfiles + "/:name"

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	const viewer, editor = access.RoleViewer, access.RoleEditor
	return []kit.Route{
		{Method: http.MethodGet, Path: kit.PathProfiles, Role: viewer, Handle: p.list},
		{Method: http.MethodPost, Path: kit.PathProfiles, Role: editor, Handle: kit.Posted(p.save)},
		{Method: http.MethodGet, Path: kit.PathProfiles + "/new", Role: editor, Handle: p.create},
		{Method: http.MethodGet, Path: pathProfile, Role: viewer, Handle: p.show},
		{Method: http.MethodGet, Path: pathProfile + "/edit", Role: editor, Handle: p.edit},
		{Method: http.MethodPost, Path: pathProfile, Role: editor, Handle: kit.Posted(p.save)},
		{Method: http.MethodPost, Path: pathProfile + "/delete", Role: editor, Reauth: true, Handle: kit.Posted(p.delete)},
	}
}
