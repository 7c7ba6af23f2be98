package sso

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"sluice/internal/access"
)

const (
	// maxToken is the maximum size of an ID token, in bytes. A token with some hundred
	// groups has a few kilobytes.
	maxToken = 64 << 10
	// maxSubject is the maximum length of a subject, in bytes (OpenID Connect Core 1.0, section 2).
	maxSubject = 255
)

// Exchange exchanges a code of the provider for the identity of the person. The challenge must be the one given to
// AuthURL. The identity may have no role. The error wraps access.ErrProviderUnavailable or access.ErrIdentity; its text
// is for the log and contains no secret.
func (p *Provider) Exchange(ctx context.Context, code string, c access.Challenge) (access.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	k, err := p.discover(ctx)
	if err != nil {
		return access.Identity{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	client := k.oauth
	if p.opt.CurrentSecret != nil {
		client.ClientSecret = p.opt.CurrentSecret()
	}
	token, err := client.Exchange(ctx, code, oauth2.VerifierOption(c.Verifier))
	if err != nil {
		var answered *oauth2.RetrieveError
		if errors.As(err, &answered) && answered.Response.StatusCode < http.StatusInternalServerError {
			return access.Identity{}, rejected(err)
		}
		return access.Identity{}, unavailable(err)
	}
	id, err := k.verify(ctx, token, p.opt.ClientID, c.Nonce)
	if err != nil {
		return access.Identity{}, err
	}
	said := claims{}
	if err := id.Claims(&said); err != nil {
		return access.Identity{}, rejected(err)
	}
	if _, ok := said.find(p.opt.Claim); !ok && k.provider.UserInfoEndpoint() != "" {
		if err := k.more(ctx, token, id.Subject, said); err != nil {
			return access.Identity{}, err
		}
	}
	groups := said.groups(p.opt.Claim)
	return access.Identity{
		Issuer: p.opt.Issuer, Subject: id.Subject, Name: said.name(), Role: p.role(groups), Groups: groups,
		AuthTime: said.authTime(),
	}, nil
}

var (
	errNoToken  = errors.New("the response has no ID token, or one that is too large")
	errNonce    = errors.New("the ID token belongs to another sign-in attempt")
	errParty    = errors.New("the ID token was issued to another client")
	errSubject  = errors.New("the ID token has no subject")
	errUserInfo = errors.New("the user info has another subject")
)

// verify checks the ID token of a response. go-oidc checks the signature, issuer,
// audience and expiry; verify checks the rest (OpenID Connect Core 1.0, section 3.1.3.7).
func (k *known) verify(ctx context.Context, token *oauth2.Token, client, nonce string) (*oidc.IDToken, error) {
	raw, _ := token.Extra("id_token").(string)
	if raw == "" || len(raw) > maxToken {
		return nil, rejected(errNoToken)
	}
	var keys error
	id, err := k.verifier.Verify(context.WithValue(ctx, keysFailed{}, &keys), raw)
	switch {
	case err != nil && errors.Is(keys, errNoResponse):
		return nil, unavailable(keys)
	case err != nil:
		return nil, rejected(err)
	case nonce == "" || subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(nonce)) != 1:
		return nil, rejected(errNonce)
	case id.Subject == "" || len(id.Subject) > maxSubject || !printable(id.Subject):
		return nil, rejected(errSubject)
	}
	var said struct {
		Party *string `json:"azp"`
	}
	if err := id.Claims(&said); err != nil {
		return nil, rejected(err)
	}
	if said.Party == nil && len(id.Audience) > 1 || said.Party != nil && *said.Party != client {
		return nil, rejected(errParty)
	}
	return id, nil
}

// more adds to said the claims of the userinfo endpoint: some providers report groups only there. Claims of the ID
// token stay unchanged.
func (k *known) more(ctx context.Context, token *oauth2.Token, subject string, said claims) error {
	info, err := k.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	switch {
	case errors.Is(err, errNoResponse), err != nil && ctx.Err() != nil:
		return unavailable(err)
	case err != nil:
		return rejected(err)
	case info.Subject != subject:
		return rejected(errUserInfo)
	}
	extra := claims{}
	if err := info.Claims(&extra); err != nil {
		return rejected(err)
	}
	if _, ok := said["email"]; !ok {
		delete(said, "email_verified") // it may belong to another address
	}
	for name, value := range extra {
		if _, ok := said[name]; !ok {
			said[name] = value
		}
	}
	return nil
}

// keysFailed is the context key of the error of fetching keys, of which go-oidc returns
// only the text.
type keysFailed struct{}

// watched is a key set that records the error of fetching its keys.
type watched struct{ keys oidc.KeySet }

// VerifySignature implements oidc.KeySet.
func (w watched) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := w.keys.VerifySignature(ctx, token)
	if room, ok := ctx.Value(keysFailed{}).(*error); ok && err != nil {
		*room = err
		if ctx.Err() != nil {
			*room = fmt.Errorf("%w: %w", errNoResponse, err)
		}
	}
	return payload, err
}
