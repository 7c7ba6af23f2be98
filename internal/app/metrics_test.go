package app

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/alerts/deliver"
	"sluice/internal/alerts/evaluate"
	"sluice/internal/alerts/sense"
	"sluice/internal/certificate"
	"sluice/internal/database"
	"sluice/internal/fleet"
	"sluice/internal/history"
	"sluice/internal/records"
	"sluice/internal/region/home"
	"sluice/internal/region/share"
	"sluice/internal/region/updates"
	"sluice/internal/starvation"
	"sluice/internal/telemetry"
	"sluice/internal/traces"
	"sluice/internal/trouble"
	"sluice/internal/usage"
	"sluice/limiter/nearstore"
	"sluice/limiter/redisstore"
)

// series is a metric of docs/metrics.md or of a node.
type series struct{ name, labels, kind string }

// documented returns the metrics of docs/metrics.md by name. Labels are sorted.
func documented(t *testing.T) map[string]series {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]series{}
	row := regexp.MustCompile("(?m)^\\| `(sluice_\\w+)(?:\\{([a-z,]+)\\})?` \\| (?:native )?(\\w+) \\|")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		out[m[1]] = series{m[1], sortedList(m[2]), m[3]}
	}
	return out
}

func sortedList(list string) string {
	words := strings.Split(list, ",")
	slices.Sort(words)
	return strings.Join(words, ",")
}

// everyMetric is a registry with the metrics of everything that a node may have. Their sources are empty.
func everyMetric() *prometheus.Registry {
	m := telemetry.New(telemetry.Build{})
	m.MustRegister(new(trouble.Registry))
	m.MemoryStore(nil)
	m.Ledger(nil)
	m.Reservations(nil)
	newRuleMetrics(m, time.Now)
	snapshotMetric(m)
	publishSecretFile(m, "X", nil)
	publishTLS(m, &certificate.Source{})
	new(agreement).register(m)
	new(readiness).register(m)
	newRefusedWatch(&Host{}, m, nil)
	home.CountCalls(m, nil)
	new(sense.Sensor).Register(m, new(evaluate.Runner), new(evaluate.Board))
	new(records.Log).Register(m, "file")
	for _, part := range []interface{ Register(prometheus.Registerer) }{
		new(database.DB), new(deliver.Worker), new(updates.Exchange), new(fleet.Bus), new(fleet.Presence),
		new(home.Receiver), new(home.Store), new(nearstore.Store), new(redisstore.Store), new(share.Shares),
		new(starvation.Meter), new(history.Writer), new(traces.Traces), new(usage.Recorder),
	} {
		part.Register(m)
	}
	return m.Registry
}

// docs/metrics.md names exactly the metrics that a node can serve, with their labels.
func TestMetricsPage_HasEveryMetric(t *testing.T) {
	described := make(chan *prometheus.Desc, 1000)
	everyMetric().Describe(described)
	close(described)
	form := regexp.MustCompile(`fqName: "(sluice_\w+)".* constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
	value := regexp.MustCompile(`="[^"]*"`)
	got := map[string]string{}
	for d := range described {
		if m := form.FindStringSubmatch(d.String()); m != nil {
			got[m[1]] = sortedList(strings.Trim(value.ReplaceAllString(m[2], "")+","+m[3], ","))
		}
	}
	want := map[string]string{}
	for _, s := range documented(t) {
		want[s.name] = s.labels
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if labels, ok := want[name]; !ok || labels != got[name] {
			t.Errorf("%s{%s} is {%s} in docs/metrics.md, there: %v", name, got[name], labels, ok)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("docs/metrics.md has %s, which nothing serves", name)
	}
}

// What a node serves is of the kind that docs/metrics.md says.
func TestMetricsPage_SaysTheKindOfEachMetric(t *testing.T) {
	t.Parallel()
	docs, n := documented(t), standingPair(t, "on").nodes[0]
	n.check(`{"user":"42"}`)
	served := regexp.MustCompile(`(?m)^# TYPE (sluice_\w+) (\w+)$`).FindAllStringSubmatch(n.text("/metrics"), -1)
	if len(served) < 60 {
		t.Fatalf("the node serves %d metrics", len(served))
	}
	for _, m := range served {
		if docs[m[1]].kind != m[2] {
			t.Errorf("%s is a %s, in docs/metrics.md a %q", m[1], m[2], docs[m[1]].kind)
		}
	}
}
