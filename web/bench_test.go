package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/web/webtest"
)

// BenchmarkPages_TenThousandRules is how long the server takes over each page when
// there are 10,000 rules in force, without the databases: those of the tests are
// in memory. docs/console.md has figures.
func BenchmarkPages_TenThousandRules(b *testing.B) {
	w := world(b, webtest.Full)
	w.Rules.List = webtest.ManyRules(10_000)
	set, err := match.CompileSource(rules.Source{Rules: w.Rules.List, Pools: w.Pools.List, Version: 43},
		match.Options{IPv4Prefix: 32, IPv6Prefix: 64})
	if err != nil {
		b.Fatal(err)
	}
	w.Sets.Store(set)
	w.Fleet.Figures.Rules = webtest.ManyLive(w.Rules.List)
	browser := w.As(access.RoleAdmin)
	for _, bb := range []struct {
		name, path string
		form       url.Values
	}{
		{"overview", "/console", nil},
		{"a message of its stream", "/console/events", nil},
		{"rules", "/console/rules", nil},
		{"rules, page 100", "/console/rules?page=100", nil},
		{"rules, searched", "/console/rules?q=logins", nil},
		{"rules, words", "/console/rules?q=user+charges", nil},
		{"rules, most denied", "/console/rules?sort=denied", nil},
		{"rules, by owner", "/console/rules?group=owner", nil},
		{"rules of a request", "/console/rules?q=POST+/v1/charges", nil},
		{"a rule", "/console/rules/1", nil},
		{"the editor", "/console/rules/1/edit", nil},
		{"its preview", "/console/rules/preview",
			url.Values{"name": {"a"}, "scope": {"user"}, "limit": {"100"}, "window_ms": {"1"}, "window_ms.unit": {"minute"}}},
		{"fail modes", "/console/fail-modes", nil},
		{"fail modes, page 100", "/console/fail-modes?page=100", nil},
		{"denials", "/console/denials", nil},
		{"requests", "/console/requests", nil},
		{"explain", "/console/explain?denial=s0", nil},
		{"a key", "/console/keys?rule=charges-per-user-09996&key=user%3A42", nil},
		{"hot keys", "/console/hot-keys", nil},
		{"import", "/console/import", nil},
		{"audit log", "/console/audit", nil},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				method := http.MethodGet
				if bb.form != nil {
					method = http.MethodPost
				}
				if page := browser.Do(method, bb.path, bb.form); page.Code != http.StatusOK {
					b.Fatal(page.Code)
				}
			}
		})
	}
}
