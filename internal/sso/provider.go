package sso

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"sluice/internal/access"
)

const (
	// patience bounds everything that is asked of the provider for one page. It is
	// under the time in which the server must have written an answer.
	patience = 3 * time.Second
	// again is how soon a provider that did not answer is asked again.
	again = 3 * time.Second
	// stale is how old what the provider said of itself may become.
	stale = time.Hour
)

// algorithms are the signatures that are believed: those of a key that only the
// provider has. HS256 and none are not among them, whatever the provider says.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// Options say which provider is asked, as whom, and what its groups mean.
type Options struct {
	// Issuer is the provider's URL, letter by letter as its tokens say it. Plain http
	// is for a loopback address.
	Issuer string
	// ClientID and ClientSecret are what the provider knows Sluice by; a public
	// client has no secret.
	ClientID, ClientSecret string
	// RedirectURL is where the provider sends browsers back to.
	RedirectURL string
	// Scopes are what is asked for; openid always is.
	Scopes []string
	// Claim has the groups: its name, or a path of names with dots, as in
	// realm_access.roles. email counts only where the provider has verified it.
	Claim string
	// Groups are those that lead to a role. Any other group leads to none.
	Groups map[access.Role][]string
	// Now is the wall clock.
	Now func() time.Time
}

// Provider is one provider of OpenID Connect. It is safe for concurrent use and
// owns no connection or goroutine between calls.
type Provider struct {
	opt    Options
	client *http.Client
	// turn is held by whoever asks the provider about itself, and guards the rest.
	turn   chan struct{}
	known  *known
	failed error
	next   time.Time
}

// known is what the provider said of itself.
type known struct {
	provider *oidc.Provider
	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
}

// New makes a Provider. Nothing is asked of it yet.
func New(o Options) *Provider {
	if !slices.Contains(o.Scopes, oidc.ScopeOpenID) {
		o.Scopes = append([]string{oidc.ScopeOpenID}, o.Scopes...)
	}
	return &Provider{opt: o, client: newClient(Loopback(o.Issuer)), turn: make(chan struct{}, 1)}
}

// AuthURL is where the browser goes to prove who is there. The error is
// access.ErrProviderUnavailable, or the context's.
func (p *Provider) AuthURL(ctx context.Context, c access.Challenge) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	k, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	options := []oauth2.AuthCodeOption{oidc.Nonce(c.Nonce), oauth2.S256ChallengeOption(c.Verifier)}
	if c.Fresh {
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0"))
	}
	return k.oauth.AuthCodeURL(c.State, options...), nil
}

// discover asks the provider about itself, one caller at a time, and keeps the
// answer for an hour. A failure is kept for a few seconds, so that a crowd at the
// door does not wait one after the other.
func (p *Provider) discover(ctx context.Context) (*known, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, away(ctx.Err())
	}
	now := p.opt.Now()
	if now.Before(p.next) {
		return p.known, p.failed
	}
	k, err := p.ask(ctx)
	switch {
	case err == nil:
		p.known, p.failed, p.next = k, nil, now.Add(stale)
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, away(err) // the browser left; that says nothing of the provider
	default:
		p.next = now.Add(again)
		if p.known == nil {
			p.failed = away(err)
		}
	}
	return p.known, p.failed
}

func (p *Provider) ask(ctx context.Context) (*known, error) {
	ctx = oidc.ClientContext(ctx, p.client)
	provider, err := oidc.NewProvider(ctx, p.opt.Issuer)
	if err != nil {
		return nil, err
	}
	var said struct {
		KeysURL string   `json:"jwks_uri"`
		Auth    []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&said); err != nil {
		return nil, err
	}
	endpoint := provider.Endpoint()
	for name, address := range map[string]string{"authorization_endpoint": endpoint.AuthURL, "token_endpoint": endpoint.TokenURL, "jwks_uri": said.KeysURL} {
		if u, err := url.Parse(address); err != nil || !private(u, Loopback(p.opt.Issuer)) {
			return nil, fmt.Errorf("%s must be an https address, not %q", name, address)
		}
	}
	endpoint.AuthStyle = authStyle(p.opt.ClientSecret, said.Auth)
	keys := watched{oidc.NewRemoteKeySet(ctx, said.KeysURL)}
	return &known{
		provider: provider,
		oauth: oauth2.Config{
			ClientID: p.opt.ClientID, ClientSecret: p.opt.ClientSecret, Endpoint: endpoint, RedirectURL: p.opt.RedirectURL, Scopes: p.opt.Scopes,
		},
		verifier: oidc.NewVerifier(p.opt.Issuer, keys, &oidc.Config{ClientID: p.opt.ClientID, SupportedSigningAlgs: algorithms, Now: p.opt.Now}),
	}, nil
}

// authStyle is how the secret is given. Trying one way and then the other, as
// oauth2 does by itself, would spend the code. Basic is what a provider takes that
// does not say (OpenID Connect Discovery 1.0, section 3).
func authStyle(secret string, methods []string) oauth2.AuthStyle {
	if secret == "" || len(methods) > 0 && !slices.Contains(methods, "client_secret_basic") && slices.Contains(methods, "client_secret_post") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

func away(err error) error { return fmt.Errorf("%w: %s", access.ErrProviderUnavailable, brief(err)) }

func refused(err error) error { return fmt.Errorf("%w: %s", access.ErrIdentity, brief(err)) }

// maxError bounds what is kept of an error, in bytes; some hold a whole answer.
const maxError = 300

func brief(err error) string {
	text := err.Error()
	if len(text) > maxError {
		text = text[:maxError] + "…"
	}
	return strings.ToValidUTF8(text, "")
}
