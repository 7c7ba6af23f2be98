package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/alerts"
	"sluice/internal/alerts/evaluate"
	"sluice/internal/alerts/sense"
)

// Alerts has the figures of alerts.
type Alerts struct {
	// Reports are those of this node by kind, and Waiting those that are not stored yet.
	Reports map[string]sense.Count
	Waiting int
	Runner  evaluate.RunnerStats
	// Active is the number of conditions of a kind that are met.
	Active func(alerts.Kind) int
}

// alertCollector publishes Alerts.
type alertCollector struct{ read func() Alerts }

var (
	alertReports = prometheus.NewDesc("sluice_alert_reports_total",
		"Reports of this node by kind of alert: stored, dropped (too many waited), or ignored by the evaluation on this "+
			"node (too many subjects).", []string{"kind", "result"}, nil)
	alertReportsWaiting = prometheus.NewDesc("sluice_alert_reports_waiting",
		"Reports of this node that are not stored in the rules database yet.", nil, nil)
	alertsActive = prometheus.NewDesc("sluice_alerts_active",
		"Alerts that are on, by kind, as this node last read them.", []string{"kind"}, nil)
	alertsTold = prometheus.NewDesc("sluice_alerts_told_total",
		"Alerts that began or ended, as evaluated by this node.", nil, nil)
	alertsEvaluating = prometheus.NewDesc("sluice_alerts_evaluating",
		"1 on the node that evaluates and sends alerts, 0 on the others.", nil, nil)
	alertEvaluationAge = prometheus.NewDesc("sluice_alert_evaluation_age_seconds",
		"Time since this node last evaluated alerts, 0 on the nodes that do not.", nil, nil)
)

// Alerts publishes the figures of alerts. read is called at each scrape. Call it at most once.
func (m *Metrics) Alerts(read func() Alerts) { m.registry.MustRegister(alertCollector{read}) }

// Describe implements prometheus.Collector.
func (alertCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{alertReports, alertReportsWaiting, alertsActive, alertsTold, alertsEvaluating,
		alertEvaluationAge} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c alertCollector) Collect(out chan<- prometheus.Metric) {
	a := c.read()
	send := func(d *prometheus.Desc, of prometheus.ValueType, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, of, n, labels...)
	}
	for _, kind := range alerts.Kinds() {
		n := a.Reports[kind]
		send(alertReports, prometheus.CounterValue, float64(n.Stored), kind, "stored")
		send(alertReports, prometheus.CounterValue, float64(n.Dropped), kind, "dropped")
		send(alertReports, prometheus.CounterValue, float64(a.Runner.Ignored[alerts.Kind(kind)]), kind, "ignored")
		if kind != string(alerts.KindFailModeEnded) { // the end of the one before it
			send(alertsActive, prometheus.GaugeValue, float64(a.Active(alerts.Kind(kind))), kind)
		}
	}
	held := 0.0
	if a.Runner.Held {
		held = 1
	}
	send(alertReportsWaiting, prometheus.GaugeValue, float64(a.Waiting))
	send(alertsTold, prometheus.CounterValue, float64(a.Runner.Events))
	send(alertsEvaluating, prometheus.GaugeValue, held)
	send(alertEvaluationAge, prometheus.GaugeValue, a.Runner.Age.Seconds())
}
