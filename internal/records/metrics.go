package records

import "github.com/prometheus/client_golang/prometheus"

// Register registers the metrics of the log with a sink of that name.
func (l *Log) Register(to prometheus.Registerer, sink string) {
	prometheus.WrapRegistererWith(prometheus.Labels{"sink": sink}, to).MustRegister(metrics{l.Totals})
}

// metrics serves the account of a decision log at each scrape. Its figures are of one moment, so that they add up.
type metrics struct{ read func() Totals }

var (
	logProduced = prometheus.NewDesc("sluice_decision_log_produced_total",
		"Events of the decision log. They are delivered, dropped, doubtful or still buffered.", nil, nil)
	logDelivered = prometheus.NewDesc("sluice_decision_log_delivered_total",
		"Events that the sink (file, kafka) has for good.", nil, nil)
	logDropped = prometheus.NewDesc("sluice_decision_log_dropped_total",
		"Events that the sink does not have, by reason (ring_full, client_full, too_old, refused, shutdown).",
		[]string{"reason"}, nil)
	logDoubtful = prometheus.NewDesc("sluice_decision_log_doubtful_total",
		"Events that were sent and given up, and of which no answer said whether they arrived.", nil, nil)
	logFolded = prometheus.NewDesc("sluice_decision_log_folded_total",
		"Denials of floods for which the event of another stands.", nil, nil)
	logBuffered = prometheus.NewDesc("sluice_decision_log_buffered",
		"Events of which it is not known yet what becomes of them: in the node, or on their way to Kafka.",
		nil, nil)
	logOldest = prometheus.NewDesc("sluice_decision_log_oldest_seconds",
		"Age of the oldest buffered event, 0 if there is none.", nil, nil)
)

// Describe implements prometheus.Collector.
func (metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{logProduced, logDelivered, logDropped, logDoubtful, logFolded, logBuffered,
		logOldest} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m metrics) Collect(out chan<- prometheus.Metric) {
	t := m.read()
	send := func(desc *prometheus.Desc, of prometheus.ValueType, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, of, n, labels...)
	}
	send(logProduced, prometheus.CounterValue, float64(t.Produced))
	send(logDelivered, prometheus.CounterValue, float64(t.Delivered))
	send(logDoubtful, prometheus.CounterValue, float64(t.Doubtful))
	send(logFolded, prometheus.CounterValue, float64(t.Folded))
	send(logBuffered, prometheus.GaugeValue, float64(t.Buffered))
	for _, r := range Reasons() {
		send(logDropped, prometheus.CounterValue, float64(t.Dropped[r.String()]), r.String())
	}
	send(logOldest, prometheus.GaugeValue, t.Age.Seconds())
}
