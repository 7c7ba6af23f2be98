package api

import (
	"testing"

	"sluice/rules"
)

// The other spellings are those of rules/route. Gateways' endpoints read them with the same function.
func TestPaths_NoSpellingEvadesARule(t *testing.T) {
	r := aMinute("login", 1)
	r.Route = new("/login")
	onBothStores(t, nil, []rules.Rule{r}, func(t *testing.T, f *fixture) {
		f.check(`{"user":"42","route":"/login"}`)
		for _, path := range []string{"/login;x=1", "/login;x/", "/a/..;b/login", "https://example.org/login",
			"HTTP://example.org:8080/login;x?y#z"} {
			if a := f.check(`{"user":"42","route":"` + path + `"}`); a.Allowed {
				t.Errorf("%s: got %+v", path, a)
			}
		}
		for _, path := range []string{"/login%3Bx", "https://login", "/https://example.org/login"} {
			if a := f.check(`{"user":"42","route":"` + path + `"}`); len(a.Limits) != 0 {
				t.Errorf("%s: got %+v", path, a)
			}
		}
	})
}
