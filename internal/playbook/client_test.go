package playbook

import "testing"

func TestClient_ThePageIsTrue(t *testing.T) { Page(t, "../../docs/client.md") }
