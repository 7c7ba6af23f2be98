package deploy_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// alertRule is an alert or a recording rule of alerts.yaml.
type alertRule struct {
	Record      string            `yaml:"record"`
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func readAlerts(t *testing.T) (all []alertRule) {
	t.Helper()
	var f struct {
		Groups []struct {
			Name  string      `yaml:"name"`
			Rules []alertRule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Load([]byte(read(t, "alerts.yaml")), &f, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	for _, g := range f.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func TestAlerts_AskForMetricsThatThereAre(t *testing.T) {
	docs, playbook := read(t, "../docs/metrics.md"), read(t, "../docs/playbook.md")
	seen, recorded := map[string]bool{}, map[string]bool{}
	for _, r := range readAlerts(t) {
		if r.Record != "" {
			recorded[r.Record] = true
		} else if want := "docs/playbook.md#" + strings.ToLower(r.Alert); r.Annotations["playbook"] != want ||
			!strings.Contains(playbook, "\n## "+r.Alert+"\n") {
			t.Errorf("%s has no section in the playbook, or does not link to it", r.Alert)
		}
		if r.Record == "" && (r.Alert == "" || seen[r.Alert] ||
			r.Annotations["summary"] == "" || r.Labels["severity"] == "") {
			t.Errorf("alert %q is there twice, or lacks a summary or a severity", r.Alert)
		}
		seen[r.Alert] = true
		metrics := regexp.MustCompile(`sluice[_:][\w:]+`).FindAllString(r.Expr, -1)
		if len(metrics) == 0 {
			t.Errorf("%s asks for nothing: %s", r.Alert, r.Expr)
		}
		for _, m := range metrics {
			if !recorded[m] && !strings.Contains(docs, "`"+m) {
				t.Errorf("%s asks for %s, which docs/metrics.md does not have", r.Alert, m)
			}
		}
	}
	if !seen["SluiceHotKey"] {
		t.Error("nothing tells of hot keys")
	}
	for _, section := range regexp.MustCompile(`(?m)^## (Sluice\w+)$`).FindAllStringSubmatch(playbook, -1) {
		if !seen[section[1]] {
			t.Errorf("the playbook has %s, which is no alert", section[1])
		}
	}
}

// Prometheus itself reads the rules, and its cases come true.
func TestAlerts_HoldTheirCases(t *testing.T) {
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_cases.yaml"}} {
		//nolint:gosec // the arguments are constants
		if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
