package playbook

import "testing"

func TestMiddleware_ThePageIsTrue(t *testing.T) { Page(t, "../../docs/middleware.md") }
