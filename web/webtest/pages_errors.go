package webtest

import (
	"net/url"
	"time"

	"sluice/internal/access"
	"sluice/rules"
)

// errorPages are the pages that say no: refused, gone, away, changed meanwhile,
// too often, and the one that asks for the password again.
func errorPages() []Shown {
	return []Shown{
		{Name: "forbidden", About: "403", Role: access.RoleViewer, Path: "/console/rules/new"},
		{Name: "conflict", About: "409: gone over a stale version", Role: access.RoleEditor, Path: "/console/rules/1/delete", Form: url.Values{"version": {"9"}}},
		{Name: "gone", About: "A denial that is no longer kept", Role: access.RoleViewer, Path: "/console/explain?denial=long-gone"},
		{Name: "confirm", About: "The password once more", Role: access.RoleAdmin, Path: "/console/tokens/1/revoke", Form: url.Values{}, Later: 11 * time.Minute},
		{Name: "confirm-wrong", About: "The password once more, wrong", Role: access.RoleAdmin, Path: "/console/tokens/1/revoke", Form: url.Values{"confirm_password": {"guess"}}, Later: 11 * time.Minute},
		{Name: "sign-in-too-often", About: "Signing in too often", Path: "/console/sign-in", Form: url.Values{"name": {"ada"}, "password": {"guess"}}, Prepare: guessALot},
		{Name: "denials-failing", About: "503: denials while the counters are away", Kind: Failing, Role: access.RoleViewer, Path: "/console/denials", Prepare: func(w *World) { w.Fleet.Err = errAway }},
		{Name: "overview-blind", About: "Overview without recent denials", Kind: Failing, Role: access.RoleViewer, Path: "/console", Prepare: func(w *World) { w.Fleet.Err = errAway }},
		{Name: "rules-failing", About: "503: rules while their database is away", Kind: Failing, Role: access.RoleViewer, Path: "/console/rules", Prepare: func(w *World) { w.Rules.Err = rules.ErrUnavailable }},
		{Name: "rule-not-saved", About: "503: a rule that could not be saved", Kind: Failing, Role: access.RoleEditor, Path: "/console/rules", Form: url.Values{"name": {"refunds"}, "scope": {"user"}, "limit": {"10"}, "window_ms": {"1"}, "window_ms.unit": {"minute"}, "is_active": {"on"}}, Prepare: func(w *World) { w.Rules.Err = rules.ErrUnavailable }},
		{Name: "key-failing", About: "One key while the counters are away", Role: access.RoleEditor, Path: "/console/keys?rule=charges-per-user&key=user%3A43", Prepare: func(w *World) { w.Counters.Err = errAway }},
		{Name: "key-errors", About: "A key that cannot be", Role: access.RoleEditor, Path: "/console/keys", Form: url.Values{"rule": {"no-such-rule"}, "key": {"user:1"}}},
		{Name: "override-stale", About: "Two people edited an override", Role: access.RoleEditor, Path: "/console/rules/1/overrides/2", Form: url.Values{"key": {"user:42"}, "kind": {"limit"}, "limit": {"500"}, "version": {"9"}}},
		{Name: "override-csv-errors", About: "Overrides that are not valid", Role: access.RoleEditor, Path: "/console/rules/1/overrides/import", Form: url.Values{"do": {"plan"}, "csv": {"key,limit\nuser:1,many\nip:1,5\n"}}},
		{Name: "pool-stale", About: "Two people edited a pool", Role: access.RoleEditor, Path: "/console/pools/shop", Form: url.Values{"limit": {"99000"}, "window_ms": {"60000"}, "normal_percent": {"80"}, "low_percent": {"50"}, "version": {"99"}}},
		{Name: "import-stale", About: "The rules changed since the plan", Role: access.RoleEditor, Path: "/console/import/apply", Form: url.Values{"text": {SampleFile}, "sum": {"0"}}},
		{Name: "fail-mode-stale", About: "A fail mode of a rule that changed meanwhile", Role: access.RoleEditor, Path: "/console/fail-modes/4", Form: url.Values{"version": {"3"}, "fail_mode": {"closed"}}},
		{Name: "explain-curl", About: "A curl command explained", Role: access.RoleViewer, Path: "/console/explain", Form: url.Values{"paste": {"curl -X POST https://api.example.com/v1/charges -H 'X-User-Id: 42' -H 'X-Forwarded-For: 203.0.113.7' -H 'X-Tenant: acme'"}}, Prepare: spendSome},
	}
}

// guessALot uses up what is allowed from the address of canned browsers and of
// those on this machine.
func guessALot(w *World) {
	for _, from := range []string{"192.0.2.1", "127.0.0.1"} {
		b := w.Browser()
		b.Address = from
		for range 6 {
			b.Post("/console/sign-in", url.Values{"name": {"ada"}, "password": {"guess"}})
		}
	}
}
