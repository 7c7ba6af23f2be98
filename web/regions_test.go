package web_test

import (
	"net/http"
	"testing"

	"sluice/internal/access"
	"sluice/web/webtest"
)

func TestRegions_AreShownWithWhatIsWrong(t *testing.T) {
	w := world(t, webtest.Full)
	page := w.As(access.RoleViewer).Get("/console/regions")
	if page.Code != http.StatusOK || !page.Has("This is eu", "284 ms, p99 412 ms", "No news from asia", "cut off for 94 s",
		"connection refused", "-2600 ms", "3.1%", "80,992 sent, 75,120 applied") {
		t.Errorf("got %d\n%s", page.Code, page.Body)
	}
	alone := world(t, webtest.Empty)
	if page := alone.As(access.RoleViewer).Get("/console/regions"); page.Code != http.StatusOK ||
		!page.Has("This server has no regions") {
		t.Errorf("without regions: %d", page.Code)
	}
}
