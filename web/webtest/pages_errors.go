package webtest

import (
	"net/url"
	"strings"
	"time"

	"sluice/internal/access"
	"sluice/rules"
)

// errorPages returns the pages of errors: forbidden, gone, unavailable, conflict, too many attempts, and the page that
// asks for the password again.
func errorPages() []Shown {
	return []Shown{
		{Name: "forbidden", About: "403", Role: access.RoleViewer, Path: "/console/rules/new"},
		{Name: "conflict", About: "409: stale version", Role: access.RoleEditor, Path: "/console/rules/1/delete",
			Form: url.Values{"version": {"9"}}},
		{Name: "gone", About: "Explain a denial that is no longer stored", Role: access.RoleViewer,
			Path: "/console/explain?denial=long-gone"},
		{Name: "confirm", About: "Confirm with the password", Role: access.RoleAdmin, Path: "/console/tokens/1/revoke",
			Form: url.Values{}, Later: 11 * time.Minute},
		{Name: "confirm-wrong", About: "Confirm with a wrong password", Role: access.RoleAdmin,
			Path: "/console/tokens/1/revoke", Form: url.Values{"confirm_password": {"guess"}}, Later: 11 * time.Minute},
		{Name: "sign-in-too-often", About: "Sign in, too many attempts", Path: "/console/sign-in",
			Form: url.Values{"name": {"ada"}, "password": {"guess"}}, Prepare: guessALot},
		{Name: "denials-failing", About: "503: denials, Redis unreachable", Kind: Failing, Role: access.RoleViewer,
			Path: "/console/denials", Prepare: func(w *World) { w.Fleet.Err = errAway }},
		{Name: "overview-blind", About: "Overview, recent denials unavailable", Kind: Failing, Role: access.RoleViewer,
			Path: "/console", Prepare: func(w *World) { w.Fleet.Err = errAway }},
		{Name: "rules-failing", About: "Rules, database unreachable", Kind: Failing, Role: access.RoleViewer,
			Path: "/console/rules", Prepare: func(w *World) { w.Rules.Err = rules.ErrUnavailable }},
		{Name: "rule-not-saved", About: "503: rule not saved", Kind: Failing, Role: access.RoleEditor, Path: "/console/rules",
			Form: url.Values{"name": {"refunds"}, "scope": {"user"}, "limit": {"10"}, "window_ms": {"1"},
				"window_ms.unit": {"minute"}, "is_active": {"on"}}, Prepare: func(w *World) { w.Rules.Err = rules.ErrUnavailable }},
		{Name: "key-failing", About: "Key, Redis unreachable", Role: access.RoleEditor,
			Path: "/console/keys?rule=charges-per-user&key=user%3A43", Prepare: func(w *World) { w.Counters.Err = errAway }},
		{Name: "key-errors", About: "Inspect a key, invalid", Role: access.RoleEditor, Path: "/console/keys",
			Form: url.Values{"rule": {"no-such-rule"}, "key": {"user:1"}}},
		{Name: "override-stale", About: "Edit an override, conflict", Role: access.RoleEditor,
			Path: "/console/rules/1/overrides/2",
			Form: url.Values{"key": {"user:42"}, "kind": {"limit"}, "limit": {"500"}, "version": {"9"}}},
		{Name: "override-csv-errors", About: "Import overrides, invalid", Role: access.RoleEditor,
			Path: "/console/rules/1/overrides/import",
			Form: url.Values{"do": {"plan"}, "csv": {"key,limit\nuser:1,many\nip:1,5\n"}}},
		{Name: "pool-stale", About: "Edit a pool, conflict", Role: access.RoleEditor, Path: "/console/pools/shop",
			Form: url.Values{"limit": {"99000"}, "window_ms": {"60000"}, "normal_percent": {"80"}, "low_percent": {"50"},
				"version": {"99"}}},
		{Name: "profile-errors", About: "New profile, invalid", Role: access.RoleEditor, Path: "/console/profiles",
			Form: url.Values{"name": {"shop front"}, "path": {"normal"}, "claims": {"off"},
				"facts.user": {"header X-User\nX-Id"}, "routes": {strings.Repeat("users\n", 20)}, "missing": {"ip value here"},
				"client_ip.trusted": {"10.0.0.1/8\nten"}, "weight.header": {"a b"}}},
		{Name: "profile-stale", About: "Edit a profile, conflict", Role: access.RoleEditor, Path: "/console/profiles/shop",
			Form: url.Values{"path": {"raw"}, "claims": {"trusted"}, "facts.user": {"header X-User"}, "version": {"99"},
				"routes": {"/v1/charges\n/files/*"}}},
		{Name: "profiles-failing", About: "503: profiles, database unreachable", Kind: Failing, Role: access.RoleViewer,
			Path: "/console/profiles", Prepare: func(w *World) { w.Profiles.Err = rules.ErrUnavailable }},
		{Name: "profile-not-saved", About: "503: profile not saved", Kind: Failing, Role: access.RoleEditor,
			Path: "/console/profiles", Form: url.Values{"name": {"mail"}, "facts.user": {"header X-User"},
				"path": {"normal"}, "claims": {"off"}, "proof.token": {"on"}},
			Prepare: func(w *World) { w.Profiles.Err = rules.ErrUnavailable }},
		{Name: "import-stale", About: "Import plan, rules changed", Role: access.RoleEditor, Path: "/console/import/apply",
			Form: url.Values{"text": {SampleFile}, "sum": {"0"}}},
		{Name: "fail-mode-stale", About: "Fail mode, conflict", Role: access.RoleEditor, Path: "/console/fail-modes/4",
			Form: url.Values{"version": {"3"}, "fail_mode": {"closed"}}},
		{Name: "explain-curl", About: "Explain a curl command", Role: access.RoleViewer, Path: "/console/explain",
			Form: url.Values{"paste": {"curl -X POST https://api.example.com/v1/charges -H 'X-User-Id: 42' -H " +
				"'X-Forwarded-For: 203.0.113.7' -H 'X-Tenant: acme'"}}, Prepare: spendSome},
	}
}

// guessALot uses up the allowed sign-in attempts from the addresses of canned browsers and of browsers on this machine.
func guessALot(w *World) {
	for _, from := range []string{"192.0.2.1", "127.0.0.1"} {
		b := w.Browser()
		b.Address = from
		for range 6 {
			b.Post("/console/sign-in", url.Values{"name": {"ada"}, "password": {"guess"}})
		}
	}
}
