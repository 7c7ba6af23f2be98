package config

import (
	"net/netip"
	"net/url"
	"strings"

	"sluice/internal/access"
)

// SignOn says where people sign in to the console besides Sluice itself: at a
// provider of OpenID Connect. Without an issuer there is none.
type SignOn struct {
	OIDCIssuer       string   `name:"oidc-issuer" env:"SLUICE_OIDC_ISSUER" placeholder:"URL" help:"Provider of OpenID Connect at which people sign in to the console, letter by letter as it calls itself, as in https://id.example.com/realms/ops. Needs --console-url. Empty leaves single sign-on out."`
	OIDCClientID     string   `name:"oidc-client-id" env:"SLUICE_OIDC_CLIENT_ID" placeholder:"TEXT" help:"What the provider knows Sluice by."`
	OIDCClientSecret string   `name:"oidc-client-secret" env:"SLUICE_OIDC_CLIENT_SECRET" secret:"true" placeholder:"SECRET" help:"The secret that the provider gave to Sluice; better given in the environment, where it does not show in process listings. Empty for a public client."`
	OIDCName         string   `name:"oidc-name" env:"SLUICE_OIDC_NAME" default:"single sign-on" placeholder:"TEXT" help:"What the button calls the provider: Sign in with ...; up to 40 characters."`
	OIDCScopes       []string `name:"oidc-scopes" env:"SLUICE_OIDC_SCOPES" default:"openid,profile,email" placeholder:"SCOPE" help:"What the provider is asked for; some tell groups only if groups is among them."`
	OIDCGroupsClaim  string   `name:"oidc-groups-claim" env:"SLUICE_OIDC_GROUPS_CLAIM" default:"groups" placeholder:"CLAIM" help:"Claim in which the provider says someone's groups: its name, or a path, as in realm_access.roles. email counts only where verified."`
	OIDCAdminGroups  []string `name:"oidc-admin-groups" env:"SLUICE_OIDC_ADMIN_GROUPS" placeholder:"GROUP" help:"Groups whose people are admins of the console; a comma within a name is written \\,. Of several roles the highest counts, and without a group nobody is let in."`
	OIDCEditorGroups []string `name:"oidc-editor-groups" env:"SLUICE_OIDC_EDITOR_GROUPS" placeholder:"GROUP" help:"Groups whose people are editors."`
	OIDCViewerGroups []string `name:"oidc-viewer-groups" env:"SLUICE_OIDC_VIEWER_GROUPS" placeholder:"GROUP" help:"Groups whose people are viewers."`
}

// SignsOn reports whether there is single sign-on.
func (s *SignOn) SignsOn() bool { return s.OIDCIssuer != "" }

// OIDCGroups are the groups that lead to each role.
func (s *SignOn) OIDCGroups() map[access.Role][]string {
	return map[access.Role][]string{
		access.RoleAdmin: named(s.OIDCAdminGroups), access.RoleEditor: named(s.OIDCEditorGroups), access.RoleViewer: named(s.OIDCViewerGroups),
	}
}

// named are the names of a list, without the spaces around them and without the
// empty one that a trailing comma makes.
func named(list []string) []string {
	var out []string
	for _, name := range list {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// OIDCScopeList are the scopes to ask for.
func (s *SignOn) OIDCScopeList() []string { return named(s.OIDCScopes) }

// check reports what is wrong; console is where people reach the console.
func (s *SignOn) check(c *checker, console string) {
	groups := 0
	for _, list := range s.OIDCGroups() {
		groups += len(list)
	}
	if !s.SignsOn() {
		if s.OIDCClientID != "" || s.OIDCClientSecret != "" || groups > 0 {
			c.fail("oidc-issuer", "SLUICE_OIDC_ISSUER", "must be set too, as other settings of single sign-on are")
		}
		return
	}
	if u, err := url.Parse(s.OIDCIssuer); err != nil || !encrypted(u) || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		c.fail("oidc-issuer", "SLUICE_OIDC_ISSUER", "must be an https address without a query, as in https://id.example.com (http only on this machine)")
	}
	if u, err := url.Parse(console); console == "" || err == nil && !encrypted(u) {
		c.fail("console-url", "SLUICE_CONSOLE_URL", "must be an https address while there is single sign-on, so that the provider can send people back (http only on this machine)")
	}
	if s.OIDCClientID == "" {
		c.fail("oidc-client-id", "SLUICE_OIDC_CLIENT_ID", "must be set for single sign-on")
	}
	if groups == 0 {
		c.fail("oidc-admin-groups", "SLUICE_OIDC_ADMIN_GROUPS", "or those of editors or viewers must name a group, or single sign-on lets nobody in")
	}
	if s.OIDCGroupsClaim == "" {
		c.fail("oidc-groups-claim", "SLUICE_OIDC_GROUPS_CLAIM", "must name a claim")
	}
	if s.OIDCName == "" || len([]rune(s.OIDCName)) > 40 {
		c.fail("oidc-name", "SLUICE_OIDC_NAME", "must have 1 to 40 characters")
	}
	for _, scope := range s.OIDCScopeList() {
		if strings.ContainsAny(scope, " \"\\") {
			c.fail("oidc-scopes", "SLUICE_OIDC_SCOPES", "must be scopes separated by commas")
			break
		}
	}
}

// encrypted reports whether what goes to u is encrypted or stays on this machine.
func encrypted(u *url.URL) bool {
	if u.Scheme == "https" {
		return u.Host != ""
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && addr.Unmap().IsLoopback())
}
