package web_test

import (
	"net/http"
	"testing"

	"sluice/internal/access"
	"sluice/web/webtest"
)

func TestSettings_AreShown(t *testing.T) {
	page := world(t, webtest.Full).As(access.RoleViewer).Get("/console/settings")
	if page.Code != http.StatusOK || !page.Has("--listen", "SLUICE_DATA_DIR", "/var/lib/sluice", "changed") {
		t.Errorf("got %d", page.Code)
	}
}
