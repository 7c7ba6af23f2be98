package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/records"
)

// decisionLog serves the account of a decision log at each scrape. Its figures are of one moment, so that they add up.
type decisionLog struct {
	sink   string
	totals func() records.Totals
	age    func() time.Duration
}

var (
	decisionLogProduced = prometheus.NewDesc("sluice_decision_log_produced_total",
		"Events of the decision log. They are delivered, dropped, doubtful or still buffered.", []string{"sink"}, nil)
	decisionLogDelivered = prometheus.NewDesc("sluice_decision_log_delivered_total",
		"Events that the sink (file, kafka) has for good.", []string{"sink"}, nil)
	decisionLogDropped = prometheus.NewDesc("sluice_decision_log_dropped_total",
		"Events that the sink does not have, by reason (ring_full, client_full, too_old, refused, shutdown).",
		[]string{"sink", "reason"}, nil)
	decisionLogDoubtful = prometheus.NewDesc("sluice_decision_log_doubtful_total",
		"Events that were sent and given up, and of which no answer said whether they arrived.", []string{"sink"}, nil)
	decisionLogFolded = prometheus.NewDesc("sluice_decision_log_folded_total",
		"Denials of floods for which the event of another stands.", []string{"sink"}, nil)
	decisionLogBuffered = prometheus.NewDesc("sluice_decision_log_buffered",
		"Events of which it is not known yet what becomes of them: in the node, or on their way to Kafka.",
		[]string{"sink"}, nil)
	decisionLogOldest = prometheus.NewDesc("sluice_decision_log_oldest_seconds",
		"Age of the oldest buffered event, 0 if there is none.", []string{"sink"}, nil)
)

// DecisionLog publishes the account of the decision log with a sink. Call it at most once for a sink.
func (m *Metrics) DecisionLog(sink string, totals func() records.Totals, age func() time.Duration) {
	m.registry.MustRegister(&decisionLog{sink: sink, totals: totals, age: age})
}

// Describe implements prometheus.Collector. Several sinks have the same series, so the collector is unchecked.
func (d *decisionLog) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (d *decisionLog) Collect(out chan<- prometheus.Metric) {
	t := d.totals()
	send := func(desc *prometheus.Desc, of prometheus.ValueType, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, of, n, append([]string{d.sink}, labels...)...)
	}
	send(decisionLogProduced, prometheus.CounterValue, float64(t.Produced))
	send(decisionLogDelivered, prometheus.CounterValue, float64(t.Delivered))
	send(decisionLogDoubtful, prometheus.CounterValue, float64(t.Doubtful))
	send(decisionLogFolded, prometheus.CounterValue, float64(t.Folded))
	send(decisionLogBuffered, prometheus.GaugeValue, float64(t.Buffered))
	for _, r := range records.Reasons() {
		send(decisionLogDropped, prometheus.CounterValue, float64(t.Dropped[r.String()]), r.String())
	}
	send(decisionLogOldest, prometheus.GaugeValue, d.age().Seconds())
}
