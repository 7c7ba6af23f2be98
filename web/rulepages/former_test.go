package rulepages_test

import (
	"testing"

	"sluice/internal/access"
	"sluice/web/webtest"
)

// The editor says before which change of the algorithm loses what was spent.
func TestPreview_SaysWhatAnEditOfTheAlgorithmLoses(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleEditor)
	for _, tt := range []struct {
		id, to string
		loses  bool
	}{{"1", "concurrency", true}, {"1", "token_bucket", false}, {"", "concurrency", false}} {
		page := b.Post("/console/rules/preview", webtest.RuleForm("algorithm", tt.to, "id", tt.id))
		if page.Code != 200 || page.Has("What was spent so far no longer counts") != tt.loses {
			t.Errorf("%+v: %d\n%s", tt, page.Code, page.Body)
		}
	}
}
