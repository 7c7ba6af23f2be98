package deploy_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// alerting is a file of rules for Prometheus.
type alerting struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []struct {
			Alert       string            `yaml:"alert"`
			Expr        string            `yaml:"expr"`
			For         string            `yaml:"for"`
			Labels      map[string]string `yaml:"labels"`
			Annotations map[string]string `yaml:"annotations"`
		} `yaml:"rules"`
	} `yaml:"groups"`
}

func TestAlerts_AskForMetricsThatThereAre(t *testing.T) {
	text, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var f alerting
	if err := yaml.UnmarshalWithOptions(text, &f, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || seen[r.Alert] || r.Annotations["summary"] == "" || r.Labels["severity"] == "" {
				t.Errorf("alert %q is there twice, or lacks a summary or a severity", r.Alert)
			}
			seen[r.Alert] = true
			metrics := regexp.MustCompile(`sluice_\w+`).FindAllString(r.Expr, -1)
			if len(metrics) == 0 {
				t.Errorf("%s asks for nothing: %s", r.Alert, r.Expr)
			}
			for _, m := range metrics {
				if !strings.Contains(string(docs), "`"+m) {
					t.Errorf("%s asks for %s, which docs/metrics.md does not have", r.Alert, m)
				}
			}
		}
	}
	if !seen["SluiceHotKey"] {
		t.Error("nothing tells of hot keys")
	}
}
