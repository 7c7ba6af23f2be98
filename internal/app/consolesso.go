package app

import (
	"strings"

	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/sso"
	"sluice/web"
)

// signOn is the console's single sign-on, or nil if the settings leave it out. The
// provider is not asked yet, so that one that is away stops no start.
func signOn(cfg *config.Serve, db *database.DB, host *Host) *web.SSO {
	if !cfg.SignsOn() {
		return nil
	}
	provider := sso.New(sso.Options{
		Issuer: cfg.OIDCIssuer, ClientID: cfg.OIDCClientID, ClientSecret: cfg.OIDCClientSecret,
		RedirectURL: strings.TrimSuffix(cfg.ConsoleURL, "/") + web.SignOnPath,
		Scopes:      cfg.OIDCScopeList(), Claim: cfg.OIDCGroupsClaim, Groups: cfg.OIDCGroups(), Now: host.Now,
	})
	return &web.SSO{Name: cfg.OIDCName, Issuer: cfg.OIDCIssuer, Claim: cfg.OIDCGroupsClaim, Provider: provider, Accounts: db}
}
