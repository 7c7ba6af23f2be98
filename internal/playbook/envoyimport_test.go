package playbook

import "testing"

func TestEnvoyImport_ThePageIsTrue(t *testing.T) { Page(t, "../../docs/envoy-import.md") }
