package people

import (
	"strings"
	"testing"

	"sluice/internal/access"
)

func TestScopes_EachIsDescribedAndOnlyAdminIsEverything(t *testing.T) {
	seen := map[string]access.Scope{}
	for _, s := range access.Scopes() {
		about := scopeAbout(s)
		if other, twice := seen[about]; about == "" || twice {
			t.Errorf("scope %s is described as %q, and so is %q", s, about, other)
		}
		seen[about] = s
		if strings.Contains(about, "All of the above") != (s == access.ScopeAdmin) {
			t.Errorf("scope %s is described as %q", s, about)
		}
	}
}
