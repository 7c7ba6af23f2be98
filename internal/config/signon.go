package config

import (
	"net/netip"
	"net/url"
	"strings"

	"sluice/internal/access"
)

// SignOn configures single sign-on to the console through an OpenID Connect
// provider. It is disabled without an issuer.
type SignOn struct {
	OIDCIssuer       string `name:"oidc-issuer" env:"SLUICE_OIDC_ISSUER" placeholder:"URL" help:"Issuer URL of the OpenID Connect provider for signing in to the console, exactly as the provider writes it, as in https://id.example.com/realms/ops. Requires --console-url. Empty: no single sign-on."`
	OIDCClientID     string `name:"oidc-client-id" env:"SLUICE_OIDC_CLIENT_ID" placeholder:"TEXT" help:"Client ID of Sluice at the provider."`
	OIDCClientSecret Secret `name:"oidc-client-secret" env:"SLUICE_OIDC_CLIENT_SECRET" changed:"A changed secret is used" placeholder:"SECRET" help:"Client secret of Sluice at the provider. Set it in the environment to keep it out of process listings. Empty for a public client."`

	OIDCName         string   `name:"oidc-name" env:"SLUICE_OIDC_NAME" default:"single sign-on" placeholder:"TEXT" help:"Name of the provider on the sign-in button: Sign in with ... 1 to 40 characters."`
	OIDCScopes       []string `name:"oidc-scopes" env:"SLUICE_OIDC_SCOPES" default:"openid,profile,email" placeholder:"SCOPE" help:"Scopes to request from the provider. Some providers send groups only with the scope groups."`
	OIDCGroupsClaim  string   `name:"oidc-groups-claim" env:"SLUICE_OIDC_GROUPS_CLAIM" default:"groups" placeholder:"CLAIM" help:"Claim that holds a person's groups: a name, or a path, as in realm_access.roles. The claim email counts only if it is verified."`
	OIDCAdminGroups  []string `name:"oidc-admin-groups" env:"SLUICE_OIDC_ADMIN_GROUPS" placeholder:"GROUP" help:"Groups whose members are admins of the console. A comma within a name is written \\,. A person gets the highest of several roles, and nobody signs in without a group."`
	OIDCEditorGroups []string `name:"oidc-editor-groups" env:"SLUICE_OIDC_EDITOR_GROUPS" placeholder:"GROUP" help:"Groups whose members are editors."`
	OIDCViewerGroups []string `name:"oidc-viewer-groups" env:"SLUICE_OIDC_VIEWER_GROUPS" placeholder:"GROUP" help:"Groups whose members are viewers."`
}

// SignsOn reports whether single sign-on is enabled.
func (s *SignOn) SignsOn() bool { return s.OIDCIssuer != "" }

// OIDCGroups lists the groups of each role.
func (s *SignOn) OIDCGroups() map[access.Role][]string {
	return map[access.Role][]string{
		access.RoleAdmin:  named(s.OIDCAdminGroups),
		access.RoleEditor: named(s.OIDCEditorGroups),
		access.RoleViewer: named(s.OIDCViewerGroups),
	}
}

// named trims the names of a list and drops empty ones, such as that after a
// trailing comma.
func named(list []string) []string {
	var out []string
	for _, name := range list {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// OIDCScopeList lists the scopes to request.
func (s *SignOn) OIDCScopeList() []string { return named(s.OIDCScopes) }

// check reports invalid settings. console is the URL of the console.
func (s *SignOn) check(c *checker, console string) {
	c.secrets(s)
	groups := 0
	for _, list := range s.OIDCGroups() {
		groups += len(list)
	}
	if !s.SignsOn() {
		if s.OIDCClientID != "" || s.OIDCClientSecret.IsSet() || groups > 0 {
			c.fail("oidc-issuer", "SLUICE_OIDC_ISSUER", "is required: other settings of single sign-on are set")
		}
		return
	}
	u, err := url.Parse(s.OIDCIssuer)
	if err != nil || !encrypted(u) || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		c.fail("oidc-issuer", "SLUICE_OIDC_ISSUER",
			"must be an https URL without a query, as in https://id.example.com (http is allowed on this machine)")
	}
	if u, err := url.Parse(console); console == "" || err == nil && !encrypted(u) {
		c.fail("console-url", "SLUICE_CONSOLE_URL",
			"must be an https URL with single sign-on: the provider redirects people to it (http is allowed on this machine)")
	}
	if s.OIDCClientID == "" {
		c.fail("oidc-client-id", "SLUICE_OIDC_CLIENT_ID", "is required for single sign-on")
	}
	if groups == 0 {
		c.fail("oidc-admin-groups", "SLUICE_OIDC_ADMIN_GROUPS",
			"or the groups of editors or viewers must name a group: without one nobody can sign in")
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

// encrypted reports whether traffic to u is encrypted or stays on this machine.
func encrypted(u *url.URL) bool {
	if u.Scheme == "https" {
		return u.Host != ""
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && addr.Unmap().IsLoopback())
}
