package sense

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/alerts"
	"sluice/internal/alerts/evaluate"
)

var (
	reportsTotal = prometheus.NewDesc("sluice_alert_reports_total",
		"Reports of this node by kind of alert: stored, dropped (too many waited), or ignored by the evaluation on this "+
			"node (too many subjects).", []string{"kind", "result"}, nil)
	reportsWaiting = prometheus.NewDesc("sluice_alert_reports_waiting",
		"Reports of this node that are not stored in the rules database yet.", nil, nil)
	alertsActive = prometheus.NewDesc("sluice_alerts_active",
		"Alerts that are on, by kind, as this node last read them.", []string{"kind"}, nil)
	alertEvents = prometheus.NewDesc("sluice_alerts_told_total",
		"Alerts that began or ended, as evaluated by this node.", nil, nil)
	evaluating = prometheus.NewDesc("sluice_alerts_evaluating",
		"1 on the node that evaluates and sends alerts, 0 on the others.", nil, nil)
	evaluationAge = prometheus.NewDesc("sluice_alert_evaluation_age_seconds",
		"Time since this node last evaluated alerts, 0 on the nodes that do not.", nil, nil)
)

// Register registers the metrics of alerts: the reports of s, what became of them in runner, and what board shows.
func (s *Sensor) Register(to prometheus.Registerer, runner *evaluate.Runner, board *evaluate.Board) {
	to.MustRegister(&metrics{s.Counts, runner.Stats, board.ActiveOf})
}

// metrics serves the figures of alerts at each scrape.
type metrics struct {
	reports func() (of map[string]Count, waiting int)
	runner  func() evaluate.RunnerStats
	active  func(alerts.Kind) int
}

// Describe implements prometheus.Collector.
func (*metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{reportsTotal, reportsWaiting, alertsActive, alertEvents, evaluating,
		evaluationAge} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	reports, waiting := m.reports()
	runner := m.runner()
	send := func(d *prometheus.Desc, of prometheus.ValueType, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, of, n, labels...)
	}
	for _, kind := range alerts.Kinds() {
		n := reports[kind]
		send(reportsTotal, prometheus.CounterValue, float64(n.Stored), kind, "stored")
		send(reportsTotal, prometheus.CounterValue, float64(n.Dropped), kind, "dropped")
		send(reportsTotal, prometheus.CounterValue, float64(runner.Ignored[alerts.Kind(kind)]), kind, "ignored")
		if kind != string(alerts.KindFailModeEnded) { // it is the end of KindFailModeEngaged
			send(alertsActive, prometheus.GaugeValue, float64(m.active(alerts.Kind(kind))), kind)
		}
	}
	held := 0.0
	if runner.Held {
		held = 1
	}
	send(reportsWaiting, prometheus.GaugeValue, float64(waiting))
	send(alertEvents, prometheus.CounterValue, float64(runner.Events))
	send(evaluating, prometheus.GaugeValue, held)
	send(evaluationAge, prometheus.GaugeValue, runner.Age.Seconds())
}
