package playbook

import (
	"testing"

	"go.uber.org/goleak"

	"sluice/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(m)) }

func TestPolicies_ThePageIsTrue(t *testing.T) { Page(t, "../../docs/policies.md") }

// The queue of deferred requests in Redis uses the server's clock. Its tests are in
// internal/deferred.
func TestPolicies_ThePageIsTrueOnRedis(t *testing.T) {
	PageOnRedis(t, "../../docs/policies.md", "Later instead of never")
}
