package rulepages_test

import (
	"net/http"
	"testing"

	"sluice/internal/access"
	"sluice/internal/fleet"
	"sluice/web/webtest"
)

func TestPreview_ShowsUnprintableTextOfACallerAsHex(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Fleet.Denied = []fleet.Request{{ID: "1", Rule: "exports", Key: "user:u", Route: "/v1/exports",
		Method: "POST", User: "u"}}
	b := w.As(access.RoleEditor)
	form := webtest.RuleForm("route", "/v1/exports/*", "method", "")
	w.Fleet.Denied[0].Route = "/v1/exports/\x1b[31m\r\u202e"
	page := b.Post("/console/rules/preview", form)
	if page.Code != http.StatusOK || !page.Has("POST /v1/exports/%1B[31m%0D%E2%80%AE by exports,") {
		t.Errorf("%d %s", page.Code, page.Body)
	}
}
