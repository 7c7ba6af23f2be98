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
	// requestTimeout bounds all requests to the provider for one page. It is shorter than
	// the write timeout of the server.
	requestTimeout = 3 * time.Second
	// again is the time after a failure until the provider is contacted again.
	again = 3 * time.Second
	// stale is the maximum age of the metadata of the provider.
	stale = time.Hour
)

// algorithms are the accepted signature algorithms, which all use a private key of the provider. HS256 and none are
// never accepted.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// Options configure a Provider.
type Options struct {
	// Issuer is the URL of the provider, exactly as in its tokens. Plain http is allowed
	// for a loopback address only.
	Issuer string
	// ClientID and ClientSecret are the credentials of Sluice at the provider; a public
	// client has no secret.
	ClientID, ClientSecret string
	// CurrentSecret returns the client secret in force. Nil: it is always ClientSecret. It is
	// called concurrently, and returns "" only if ClientSecret is "".
	CurrentSecret func() string
	// RedirectURL is the URL that the provider sends browsers back to.
	RedirectURL string
	// Scopes are the requested scopes; openid is always added.
	Scopes []string
	// Claim is the name of the claim with the groups, or a path of names with dots, such
	// as realm_access.roles. email is used only if the provider has verified it.
	Claim string
	// Groups maps groups to roles. Other groups have no role.
	Groups map[access.Role][]string
	// Now is the wall clock.
	Now func() time.Time
}

// Provider is an OpenID Connect provider. It is safe for concurrent use and has no
// connection or goroutine between calls.
type Provider struct {
	opt    Options
	client *http.Client
	// turn is held while the metadata is fetched, and guards the fields below.
	turn   chan struct{}
	known  *known
	failed error
	next   time.Time
}

// known is the metadata of the provider.
type known struct {
	provider *oidc.Provider
	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
}

// New returns a Provider. It does not contact it yet.
func New(o Options) *Provider {
	if !slices.Contains(o.Scopes, oidc.ScopeOpenID) {
		o.Scopes = append([]string{oidc.ScopeOpenID}, o.Scopes...)
	}
	return &Provider{opt: o, client: newClient(Loopback(o.Issuer)), turn: make(chan struct{}, 1)}
}

// AuthURL returns the URL at which a person signs in to the provider. The error is access.ErrProviderUnavailable or the
// error of ctx.
func (p *Provider) AuthURL(ctx context.Context, c access.Challenge) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
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

// discover fetches the metadata of the provider, one caller at a time, and caches it for
// an hour. It caches an error for a few seconds, so that many callers do not wait one
// after the other.
func (p *Provider) discover(ctx context.Context) (*known, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, unavailable(ctx.Err())
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
		return nil, unavailable(err) // the browser closed the request; this is no failure of the provider
	default:
		p.next = now.Add(again)
		if p.known == nil {
			p.failed = unavailable(err)
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
	for name, address := range map[string]string{"authorization_endpoint": endpoint.AuthURL,
		"token_endpoint": endpoint.TokenURL, "jwks_uri": said.KeysURL} {
		if u, err := url.Parse(address); err != nil || !secure(u, Loopback(p.opt.Issuer)) {
			return nil, fmt.Errorf("%s must be an https address, not %q", name, address)
		}
	}
	endpoint.AuthStyle = authStyle(p.opt.ClientSecret, said.Auth)
	keys := watched{oidc.NewRemoteKeySet(ctx, said.KeysURL)}
	return &known{
		provider: provider,
		oauth: oauth2.Config{
			ClientID: p.opt.ClientID, ClientSecret: p.opt.ClientSecret, Endpoint: endpoint, RedirectURL: p.opt.RedirectURL,
			Scopes: p.opt.Scopes,
		},
		verifier: oidc.NewVerifier(p.opt.Issuer, keys,
			&oidc.Config{ClientID: p.opt.ClientID, SupportedSigningAlgs: algorithms, Now: p.opt.Now}),
	}, nil
}

// authStyle returns how the secret is sent. To try both ways, as oauth2 does by default,
// would use up the code. Basic is the default of providers that do not specify it
// (OpenID Connect Discovery 1.0, section 3).
func authStyle(secret string, methods []string) oauth2.AuthStyle {
	if secret == "" || len(methods) > 0 && !slices.Contains(methods, "client_secret_basic") &&
		slices.Contains(methods, "client_secret_post") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

func unavailable(err error) error {
	return fmt.Errorf("%w: %s", access.ErrProviderUnavailable, brief(err))
}

func rejected(err error) error { return fmt.Errorf("%w: %s", access.ErrIdentity, brief(err)) }

// maxError is how many bytes of an error are kept; some contain a whole response.
const maxError = 300

func brief(err error) string {
	text := err.Error()
	if len(text) > maxError {
		text = text[:maxError] + "…"
	}
	return strings.ToValidUTF8(text, "")
}
