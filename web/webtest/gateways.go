package webtest

import (
	"context"
	"sync"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/profile"
)

// Gateways makes profiles together with tokens in a World. Its methods are safe while pages are served.
type Gateways struct {
	// Err, if not nil, is what every change fails with.
	Err   error
	world *World
	mu    sync.Mutex
	made  map[string]profile.Connection
}

// Connect implements profiles.Gateways.
func (g *Gateways) Connect(ctx context.Context, actor rules.Actor, p profile.Profile, t *access.Token,
	inputs map[string]string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.Err != nil {
		return g.Err
	}
	if _, err := g.world.Profiles.Store().Create(ctx, actor, p); err != nil {
		return err
	}
	c := profile.Connection{Inputs: inputs}
	if t != nil {
		made, err := g.world.Tokens.CreateToken(ctx, actor, *t)
		if err != nil {
			_ = g.world.Profiles.Store().Delete(ctx, actor, p.Name, 1)
			return err
		}
		c.TokenID = made.ID
	}
	g.made[p.Name] = c
	return nil
}

// Disconnect implements profiles.Gateways.
func (g *Gateways) Disconnect(ctx context.Context, actor rules.Actor, name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.made[name]
	switch {
	case g.Err != nil:
		return g.Err
	case !ok:
		return rules.ErrNotFound
	case c.AskedAt != nil:
		return profile.ErrAsked
	}
	if c.TokenID != 0 {
		if err := g.world.Tokens.RevokeToken(ctx, actor, c.TokenID); err != nil {
			return err
		}
	}
	delete(g.made, name)
	return g.world.Profiles.Store().Delete(ctx, actor, name, 1)
}

// Connection implements profiles.Gateways.
func (g *Gateways) Connection(_ context.Context, name string) (profile.Connection, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.made[name]
	if !ok {
		return c, rules.ErrNotFound
	}
	return c, nil
}

// Ask lets a gateway ask with a profile at an instant.
func (g *Gateways) Ask(name string, at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.made[name]
	c.AskedAt = &at
	g.made[name] = c
}

// addGateway connects nginx as ada.
func addGateway(w *World) {
	p := profile.New()
	p.Name, p.Description = "edge", "nginx"
	p.Facts.APIKey = []profile.Source{{Header: "X-Api-Key"}}
	err := w.Gateways.Connect(context.Background(), rules.Actor{Kind: "user", Name: "ada"}, p,
		&access.Token{Name: "edge", Scopes: []access.Scope{access.ScopeCheck}},
		map[string]string{"gateway": "nginx", "header": "X-Api-Key", "sluice": "127.0.0.1:8080",
			"clients": "127.0.0.1:8000", "app": "127.0.0.1:9000"})
	if err != nil {
		panic(err)
	}
}
