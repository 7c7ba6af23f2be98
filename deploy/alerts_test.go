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
		} else if want := "/{{ end }}docs/playbook.md#" + strings.ToLower(r.Alert); !strings.HasSuffix(
			r.Annotations["runbook_url"], want) || !strings.Contains(playbook, "\n## "+r.Alert+"\n") {
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

// promQL returns the queries of a page, one for each line of its blocks.
func promQL(page string) (queries []string) {
	for _, block := range regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
				queries = append(queries, line)
			}
		}
	}
	return queries
}

// Every entry of the playbook says what users see, how to check, what to do and whom to call, in this order, and has
// something to paste. Its queries, and those of docs/metrics.md, can be evaluated.
func TestPlaybook_EveryEntryHasOneForm(t *testing.T) {
	page := read(t, "../docs/playbook.md")
	form := regexp.MustCompile(`(?s)^\n\n\*\*Users see\.\*\* .*\n\n\*\*Check\.\*\*\s.*\n\n\*\*Do\.\*\*\s.*` +
		`\n\n\*\*Escalate\.\*\* [^\n].*$`)
	for _, section := range strings.Split(page, "\n## ")[1:] {
		name := regexp.MustCompile(`^Sluice\w+`).FindString(section)
		if name == "" {
			continue
		}
		if !form.MatchString(section[len(name):]) {
			t.Errorf("%s does not have the parts Users see, Check, Do and Escalate", name)
		}
		if !strings.Contains(section, "```") {
			t.Errorf("%s has no command", name)
		}
	}
	checkQueries(t, "docs/playbook.md", promQL(page))
	checkQueries(t, "docs/metrics.md", promQL(read(t, "../docs/metrics.md")))
}
