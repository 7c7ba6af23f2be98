package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// panel is one of the dashboard.
type panel struct {
	Title   string
	Targets []struct{ Expr string }
}

func readDashboard(t *testing.T) []panel {
	t.Helper()
	var board struct{ Panels []panel }
	if err := json.Unmarshal([]byte(read(t, "dashboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	return board.Panels
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name) //nolint:gosec // the names are constants
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every expression of the dashboard is one that Prometheus can evaluate.
func TestDashboard_AsksForMetricsThatThereAre(t *testing.T) {
	var exprs []string
	for _, p := range readDashboard(t) {
		if len(p.Targets) == 0 {
			t.Errorf("%s asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			exprs = append(exprs, strings.NewReplacer("$__rate_interval", "5m", "$job", ".+").Replace(target.Expr))
		}
	}
	checkQueries(t, "the dashboard", exprs)
}

// checkQueries fails the test unless each expression parses, and asks for series that docs/metrics.md lists, which a
// test compares with the registry, or that alerts.yaml records.
func checkQueries(t *testing.T, from string, exprs []string) {
	t.Helper()
	docs, recorded := read(t, "../docs/metrics.md"), read(t, "alerts.yaml")
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var rules []rule
	if len(exprs) == 0 {
		t.Errorf("%s asks for nothing", from)
	}
	for _, expr := range exprs {
		rules = append(rules, rule{fmt.Sprintf("a:b:c%d", len(rules)), expr})
		series := regexp.MustCompile(`sluice[_:][\w:]+`).FindAllString(expr, -1)
		if len(series) == 0 {
			t.Errorf("%s: %s asks for no series", from, expr)
		}
		for _, s := range series {
			s = strings.TrimSuffix(s, "_bucket")
			if !strings.Contains(docs, "| `"+s+"`") && !strings.Contains(docs, "| `"+s+"{") &&
				!strings.Contains(recorded, "record: "+s+"\n") {
				t.Errorf("%s asks for %s, which does not exist", from, s)
			}
		}
	}
	text, err := yaml.Dump(map[string]any{"groups": []any{map[string]any{"name": "queries", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	//nolint:gosec // a file of this test
	if out, err := exec.CommandContext(t.Context(), "promtool", "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%s: promtool: %v\n%s", from, err, out)
	}
}
