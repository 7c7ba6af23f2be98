package playbook

import (
	"testing"

	"go.uber.org/goleak"

	"sluice/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(m)) }

func TestPolicies_ThePagesAreTrue(t *testing.T) {
	for _, page := range policies {
		Page(t, page)
	}
}

// The queue of deferred requests in Redis uses the server's clock. Its tests are in
// internal/deferred.
func TestPolicies_ThePagesAreTrueOnRedis(t *testing.T) {
	for _, page := range policies {
		PageOnRedis(t, page, "Later instead of never")
	}
}

// policies are the pages about the options of a rule, with examples.
var policies = []string{"../../docs/policies-match.md", "../../docs/policies-limits.md",
	"../../docs/policies-denials.md", "../../docs/policies-later.md"}
