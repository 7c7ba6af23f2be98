package web

import (
	"context"
	"errors"

	"sluice/internal/access"
)

// SSO is single sign-on at one provider. Every field must be given.
type SSO struct {
	// Name is what the button calls the provider, Issuer its address, Claim where it
	// says someone's groups.
	Name, Issuer, Claim string
	Provider            SignOn
	Accounts            SignOnAccounts
}

func (s *SSO) check() error {
	if s != nil && (s.Name == "" || s.Issuer == "" || s.Claim == "" || s.Provider == nil || s.Accounts == nil) {
		return errors.New("web: every field of SSO is required")
	}
	return nil
}

// SignOn is a provider of single sign-on. Errors wrap access.ErrProviderAway or
// access.ErrIdentity, and are for the log.
type SignOn interface {
	// AuthURL is where the browser goes with a challenge.
	AuthURL(ctx context.Context, c access.Challenge) (string, error)
	// Exchange turns the code with which it comes back into who is there; the
	// identity may have no role.
	Exchange(ctx context.Context, code string, c access.Challenge) (access.Identity, error)
}

// SignOnAccounts finds and makes accounts of people who sign in elsewhere.
type SignOnAccounts interface {
	// SignOn gives the account of an identity. Errors wrap access.ErrNoRole,
	// access.ErrDisabled or rules.ErrUnavailable, or are a *rules.ValidationError.
	SignOn(ctx context.Context, id access.Identity) (access.User, error)
}
