package webtest

import (
	"net/url"

	"sluice/internal/access"
)

// adminPages are the pages of people, tokens, the audit log, import and settings.
func adminPages() []Shown {
	return []Shown{
		{Name: "people", About: "People", Role: access.RoleAdmin, Path: "/console/people"},
		{Name: "people-viewer", About: "People, as a viewer", Role: access.RoleViewer, Path: "/console/people"},
		{Name: "person", About: "One account", Role: access.RoleAdmin, Path: "/console/people/2", Prepare: func(w *World) { w.As(access.RoleEditor) }},
		{Name: "person-new", About: "A new account", Role: access.RoleAdmin, Path: "/console/people/new"},
		{Name: "person-errors", About: "A new account, not valid", Role: access.RoleAdmin, Path: "/console/people/new", Form: url.Values{"name": {"ada"}, "role": {"editor"}, "by": {"password"}, "password": {"short"}}},
		{Name: "person-link", About: "A link to choose a password", Role: access.RoleAdmin, Path: "/console/people/2/link", Form: url.Values{}},
		{Name: "person-last-admin", About: "The last admin stays", Role: access.RoleAdmin, Path: "/console/people/3/role", Form: url.Values{"role": {"viewer"}}},
		{Name: "link-used", About: "A link to choose a password, used", Path: "/console/invite?token=no"},
		{Name: "account", About: "One's own account", Role: access.RoleEditor, Path: "/console/account", Prepare: func(w *World) { w.As(access.RoleEditor) }},
		{Name: "tokens", About: "API tokens", Role: access.RoleAdmin, Path: "/console/tokens"},
		{Name: "tokens-empty", About: "No API tokens yet", Kind: Empty, Role: access.RoleAdmin, Path: "/console/tokens"},
		{Name: "token-new", About: "A new token", Role: access.RoleAdmin, Path: "/console/tokens/new"},
		{Name: "token-errors", About: "A new token, not valid", Role: access.RoleAdmin, Path: "/console/tokens/new", Form: url.Values{"name": {""}, "days": {"30"}}},
		{Name: "token-made", About: "The secret of a new token", Role: access.RoleAdmin, Path: "/console/tokens/new", Form: url.Values{"name": {"ci-2"}, "days": {"30"}, "scope_check": {"on"}}},
		{Name: "settings", About: "Settings", Role: access.RoleAdmin, Path: "/console/settings"},
	}
}
