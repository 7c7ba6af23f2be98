package manifests

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// The dashboard has all members that Grafana's schema requires, and none that it does not know, in each of its panels.
func TestDashboard_DecodesStrictly(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	text, err := os.ReadFile("../../dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if found := mistakes(t, string(text)); len(found) > 0 {
		t.Error(found)
	}
	var board dashboard.Dashboard //nolint:staticcheck // the schema of the file, which Grafana still imports
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	if err := board.Validate(); err != nil {
		t.Error(err)
	}
	if len(board.Panels) == 0 {
		t.Error("the dashboard has no panels")
	}
	for good, bad := range map[string]string{`"annotations"`: `"annotation"`, `"gridPos"`: `"gridpos"`, `"expr"`: `"query"`} {
		wrong := strings.Replace(string(text), good, bad, 1)
		if len(mistakes(t, wrong)) == 0 {
			t.Errorf("%s for %s is accepted", bad, good)
		}
	}
}

// mistakes decodes a dashboard strictly. The decoder returns an error in any case, an empty list if it found no
// mistake, and then leaves out the panels.
func mistakes(t *testing.T, text string) (found cog.BuildErrors) {
	t.Helper()
	var board dashboard.Dashboard //nolint:staticcheck // as above
	if err := board.UnmarshalJSONStrict([]byte(text)); err != nil && !errors.As(err, &found) {
		t.Fatal(err)
	}
	return found
}
