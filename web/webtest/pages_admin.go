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
		{Name: "person", About: "Account", Role: access.RoleAdmin, Path: "/console/people/2",
			Prepare: func(w *World) { w.As(access.RoleEditor) }},
		{Name: "person-new", About: "New account", Role: access.RoleAdmin, Path: "/console/people/new"},
		{Name: "person-errors", About: "New account, invalid", Role: access.RoleAdmin, Path: "/console/people/new",
			Form: url.Values{"name": {"ada"}, "role": {"editor"}, "by": {"password"}, "password": {"short"}}},
		{Name: "person-link", About: "Invite link", Role: access.RoleAdmin, Path: "/console/people/2/link",
			Form: url.Values{}},
		{Name: "person-last-admin", About: "Last administrator", Role: access.RoleAdmin, Path: "/console/people/3/role",
			Form: url.Values{"role": {"viewer"}}},
		{Name: "link", About: "Invite link", Path: "/console/invite?token=$INVITE"},
		{Name: "link-used", About: "Invite link, used", Path: "/console/invite?token=no"},
		{Name: "account", About: "Your account", Role: access.RoleEditor, Path: "/console/account",
			Prepare: func(w *World) { w.As(access.RoleEditor) }},
		{Name: "people-elsewhere", About: "People with single sign-on", Kind: SignOn, Role: access.RoleAdmin,
			Path: "/console/people"},
		{Name: "person-elsewhere", About: "Account with single sign-on", Kind: SignOn, Role: access.RoleAdmin,
			Path: "/console/people/4", Prepare: func(w *World) { w.As(access.RoleEditor) }},
		{Name: "account-elsewhere", About: "Your account with single sign-on", Kind: SignOn, Role: access.RoleEditor,
			Path: "/console/account"},
		{Name: "tokens", About: "API tokens", Role: access.RoleAdmin, Path: "/console/tokens"},
		{Name: "tokens-empty", About: "No API tokens yet", Kind: Empty, Role: access.RoleAdmin, Path: "/console/tokens"},
		{Name: "token-new", About: "New token", Role: access.RoleAdmin, Path: "/console/tokens/new"},
		{Name: "token-errors", About: "New token, invalid", Role: access.RoleAdmin, Path: "/console/tokens/new",
			Form: url.Values{"name": {""}, "days": {"30"}}},
		{Name: "token-made", About: "New token, secret", Role: access.RoleAdmin, Path: "/console/tokens/new",
			Form: url.Values{"name": {"ci-2"}, "days": {"30"}, "scope_check": {"on"}}},
		{Name: "token-rotate", About: "Rotate a token", Role: access.RoleAdmin, Path: "/console/tokens/1/rotate"},
		{Name: "token-rotated", About: "Rotated token, secret", Role: access.RoleAdmin, Path: "/console/tokens/1/rotate",
			Form: url.Values{"hours": {"24"}}},
		{Name: "token-rotate-again", About: "409: token rotated already", Role: access.RoleAdmin,
			Path: "/console/tokens/3/rotate"},
		{Name: "audit", About: "Audit log", Role: access.RoleAdmin, Path: "/console/audit"},
		{Name: "audit-filtered", About: "Audit log, no match", Role: access.RoleViewer,
			Path: "/console/audit?actor=nobody&from=2026-11-01"},
		{Name: "import", About: "Import and export", Role: access.RoleEditor, Path: "/console/import"},
		{Name: "import-errors", About: "Import, invalid file", Role: access.RoleEditor, Path: "/console/import",
			Form: url.Values{"text": {"rules:\n  - name: No Good\n    scope: user+\n    limit: 0\n    window_ms: 1\n"}}},
		{Name: "import-plan", About: "Import plan", Role: access.RoleEditor, Path: "/console/import",
			Form: url.Values{"prune": {"on"}, "text": {SampleFile}}},
		{Name: "settings", About: "Settings", Role: access.RoleAdmin, Path: "/console/settings"},
		{Name: "settings-changed", About: "Settings, filtered", Role: access.RoleViewer,
			Path: "/console/settings?q=rules&only=changed"},
		{Name: "settings-none", About: "Settings, no match", Role: access.RoleViewer, Path: "/console/settings?q=zebra"},
	}
}

// SampleFile creates one rule of a Full world, changes one, and with prune deletes
// the rest.
const SampleFile = `rules:
  - name: charges-per-user
    description: Protects the card processor.
    scope: user
    route: /v1/charges
    method: POST
    limit: 120
    window_ms: 60000
    fail_mode: local
  - name: refunds-per-user
    scope: user
    route: /v1/refunds
    limit: 10
    window_ms: 60000
`
