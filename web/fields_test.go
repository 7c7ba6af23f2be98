package web_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/web/webtest"
)

// Each form of an object leads to what its fields mean, in a schema that the document of the API has.
func TestForms_LeadToWhatTheirFieldsMean(t *testing.T) {
	document, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b := world(t, webtest.Full).As(access.RoleAdmin)
	for _, path := range []string{"/console/rules/new", "/console/rules/1/edit", "/console/pools/new",
		"/console/profiles/new", "/console/alerts/webhooks/new"} {
		m := regexp.MustCompile(`href="/docs/schemas#(\w+)"`).FindStringSubmatch(b.Get(path).Body)
		if len(m) != 2 || !strings.Contains(string(document), "\n    "+m[1]+":\n") {
			t.Errorf("%s leads to %q", path, m)
		}
	}
}
