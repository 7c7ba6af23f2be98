package kit_test

import (
	"net/http"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/web/webtest"
)

// TestQuery_ALongFilterIsRefused: a redirect to the sign-in form would carry it in a header, so nobody gets one.
func TestQuery_ALongFilterIsRefused(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	for who, b := range map[string]*webtest.Browser{"nobody": w.Browser(), "viewer": w.As(access.RoleViewer)} {
		for _, path := range []string{"/console/rules", "/console/denials", "/console/traffic"} {
			page := b.Get(path + "?q=" + strings.Repeat("x", 10_000))
			if page.Code != http.StatusUnprocessableEntity || !page.Has("Filter too long") || page.Header.Get("Location") != "" {
				t.Errorf("%s, %s: %d %.60s", who, path, page.Code, page.Header.Get("Location"))
			}
			if page := b.Get(path + "?q=" + strings.Repeat("x", 1000)); page.Code == http.StatusUnprocessableEntity {
				t.Errorf("%s, %s: a filter of 1,000 bytes is refused", who, path)
			}
		}
	}
}
