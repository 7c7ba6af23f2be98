// Package signin signs people in and out: with a password, with single sign-on, or with the link of the first start.
package signin

import (
	"net/http"

	"sluice/web/kit"
)

// Pages are the pages of the area.
type Pages struct {
	*kit.Kit
	// Welcome is the one-time link of the first start; nil if there is none.
	Welcome *Welcome
}

const (
	pathSignOut  = "/console/sign-out"
	pathWelcome  = "/console/welcome"
	pathSSOStart = "/console/sso/start"
	pathSSOGo    = "/console/sso/go"

	// SignOnPath is the path to which the single sign-on provider sends browsers back.
	SignOnPath = "/console/sso/callback"
)

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	return []kit.Route{
		{Method: http.MethodGet, Path: kit.PathSignIn, Handle: p.signInForm},
		{Method: http.MethodPost, Path: kit.PathSignIn, Offline: true, Handle: kit.Posted(p.signIn)},
		{Method: http.MethodPost, Path: pathSignOut, Offline: true, Handle: p.signOut},
		{Method: http.MethodGet, Path: pathWelcome, Form: true, Handle: p.welcomeForm},
		{Method: http.MethodPost, Path: pathWelcome, Handle: kit.Posted(p.welcome)},
		{Method: http.MethodPost, Path: pathSSOStart, Handle: p.ssoStart},
		{Method: http.MethodGet, Path: pathSSOGo, Handle: p.ssoGo},
		{Method: http.MethodGet, Path: SignOnPath, Handle: p.ssoCallback},
	}
}
