package webtest

import (
	"context"
	"net/http"
	"net/url"
	"sync"

	"sluice/internal/access"
	"sluice/web"
)

// Issuer is the provider of a world with single sign-on.
const Issuer = "https://id.example.com"

// Provider signs in the people that the test names, without a network. It is safe for concurrent use.
type Provider struct {
	world *World

	mu sync.Mutex
	// who maps codes to the identities that they sign in.
	who  map[string]access.Identity
	last access.Challenge
	// Err, if not nil, is the error of every call.
	Err error
	// Arriving, if not nil, is who is on the way back in the browser of nobody, that
	// World.As("") gives. World.Fill has their path.
	Arriving *access.Identity
	// Stale: nobody is asked again who they are, whoever wants it.
	Stale bool
}

// signOn is the single sign-on of a world, nil if it has none.
func (w *World) signOn() *web.SSO {
	if w.Provider == nil {
		return nil
	}
	return &web.SSO{Name: "Example ID", Issuer: Issuer, Claim: "groups", Provider: w.Provider, Accounts: w.Users}
}

// AuthURL implements kit.SignOn.
func (f *Provider) AuthURL(_ context.Context, c access.Challenge) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = c
	return Issuer + "/authorize?" + url.Values{"state": {c.State}}.Encode(), f.Err
}

// Exchange implements kit.SignOn. The code must be of the last challenge, and is
// good once.
func (f *Provider) Exchange(_ context.Context, code string, c access.Challenge) (access.Identity, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, ok := f.who[code]
	delete(f.who, code)
	switch {
	case f.Err != nil:
		return access.Identity{}, f.Err
	case !ok || c != f.last:
		return access.Identity{}, access.ErrIdentity
	}
	if c.Fresh && !f.Stale {
		id.AuthTime = f.world.Clock.Now()
	}
	return id, nil
}

// Last is the challenge of the attempt begun last.
func (f *Provider) Last() access.Challenge {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// Answer returns the path, with a code for an identity, to which the provider sends the browser of the last attempt.
func (f *Provider) Answer(id access.Identity) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.who == nil {
		f.who = map[string]access.Identity{}
	}
	code := "code-" + f.last.State
	f.who[code] = id
	return web.SignOnPath + "?" + url.Values{"code": {code}, "state": {f.last.State}}.Encode()
}

// arrive sends the browser of nobody on its way.
func (f *Provider) arrive(b *Browser) {
	if f != nil && f.Arriving != nil {
		b.Post("/console/sso/start", url.Values{})
	}
}

// Identity is somebody at the provider who has a role here.
func Identity(role access.Role) access.Identity {
	return access.Identity{Issuer: Issuer, Subject: "s-" + string(role), Name: Names[role] + ".elsewhere", Role: role}
}

// strangerArrives lets somebody be on the way back who has no role here.
func strangerArrives(w *World) {
	stranger := Identity(access.RoleViewer)
	stranger.Subject, stranger.Role, stranger.Groups = "s-stranger", "", []string{"sales", "lunch"}
	w.Provider.Arriving = &stranger
}

// SignOn goes to the provider and comes back as somebody.
func (b *Browser) SignOn(id access.Identity) Page {
	if page := b.Post("/console/sso/start", url.Values{}); page.Code != http.StatusOK {
		return page
	}
	return b.Get(b.world.Provider.Answer(id))
}

// SignOn implements kit.SignOnAccounts.
func (f *Users) SignOn(_ context.Context, id access.Identity) (access.User, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Err != nil {
		return access.User{}, f.Err
	}
	for i := range f.list {
		u := &f.list[i]
		if u.Issuer != id.Issuer || u.Subject != id.Subject {
			continue
		}
		if u.Disabled {
			return access.User{}, access.ErrDisabled
		}
		if u.Role != id.Role {
			u.Generation++
		}
		if id.Role == "" {
			return access.User{}, access.ErrNoRole
		}
		u.Role = id.Role
		return *u, nil
	}
	if id.Role == "" {
		return access.User{}, access.ErrNoRole
	}
	u := access.User{
		ID: int64(len(f.list) + 1), Name: f.free(id.Name), Role: id.Role, Issuer: id.Issuer, Subject: id.Subject,
		Generation: 1,
		CreatedBy:  "single sign-on", CreatedAt: Now, UpdatedAt: Now,
	}
	f.list = append(f.list, u)
	return u, nil
}

func (f *Users) free(name string) string {
	for i := range f.list {
		if f.list[i].Name == name {
			return f.free(name + "-2")
		}
	}
	return name
}

// Account is the account of an identity; found is false if there is none.
func (f *Users) Account(id access.Identity) (u access.User, found bool) {
	u, err := f.find(func(u *access.User) bool { return u.Issuer == id.Issuer && u.Subject == id.Subject })
	return u, err == nil
}
