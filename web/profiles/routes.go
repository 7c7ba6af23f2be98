// Package profiles shows and edits profiles, which say how the requests of gateways are read, and connects gateways: it
// makes a profile and a token, and fills in the text for the gateway.
package profiles

import (
	"context"
	"net/http"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/profile"
	"sluice/web/kit"
)

// Deps is what the area needs besides the kit. Every field is required.
type Deps struct {
	Store    rules.Store[profile.Profile]
	Gateways Gateways
	Tokens   Tokens
	// TokensChanged is called after a change of tokens, like kit.Deps.Changed after a change of rules.
	TokensChanged func(ctx context.Context) bool
}

// Gateways stores the profile and the token of a gateway together. Errors are those of rules.Store, and
// profile.ErrAsked.
type Gateways interface {
	// Connect stores both; t is nil for a gateway that sends no token.
	Connect(ctx context.Context, actor rules.Actor, p profile.Profile, t *access.Token, inputs map[string]string) error
	// Disconnect deletes the profile and revokes the token, unless a gateway has asked.
	Disconnect(ctx context.Context, actor rules.Actor, name string) error
	// Connection returns what Connect stored with a profile.
	Connection(ctx context.Context, name string) (profile.Connection, error)
}

// Tokens lists API tokens, and makes one for a program, which needs no profile. Errors are those of people.Tokens.
type Tokens interface {
	ListTokens(ctx context.Context) ([]access.Token, error)
	CreateToken(ctx context.Context, actor rules.Actor, t access.Token) (access.Token, error)
}

// Pages are the pages of the area.
type Pages struct {
	*kit.Kit
	Deps
}

const pathProfile = kit.PathProfiles + "/:name"

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	return append(kit.ObjectRoutes(kit.PathProfiles, access.RoleEditor, p.objects),
		kit.Route{Method: http.MethodGet, Path: kit.PathProfiles, Role: access.RoleViewer, Handle: p.list},
		kit.Route{Method: http.MethodGet, Path: pathProfile, Role: access.RoleViewer, Handle: p.show},
		kit.Route{Method: http.MethodPost, Path: pathProfile + "/disconnect", Role: access.RoleAdmin,
			Reauth: kit.Does("remove a profile and its token"), Handle: p.disconnect},
		kit.Route{Method: http.MethodGet, Path: kit.PathConnect, Role: access.RoleViewer, Handle: p.chooseGateway},
		kit.Route{Method: http.MethodPost, Path: kit.PathConnect, Role: access.RoleAdmin,
			Reauth: kit.Does("connect a gateway"), Handle: kit.Posted(p.connect)})
}
