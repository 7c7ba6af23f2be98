package playbook

import (
	"testing"

	"go.uber.org/goleak"

	"sluice/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(m)) }

func TestPolicies_ThePageIsTrue(t *testing.T) { Page(t, "../../docs/policies.md") }
