package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/alerts"
)

// webhookCollector serves what became of messages to webhooks at each scrape.
type webhookCollector struct{ read func() alerts.DeliveryTotals }

var (
	webhookAttempts = prometheus.NewDesc("sluice_webhook_attempts_total",
		"Messages that this node sent to webhooks, by result (delivered, status, gone, no_answer, refused).",
		[]string{"result"}, nil)
	webhookGivenUp = prometheus.NewDesc("sluice_webhook_given_up_total",
		"Messages that this node gave up, by reason (too_old, too_many).", []string{"reason"}, nil)
	webhookWaiting = prometheus.NewDesc("sluice_webhook_waiting",
		"Messages that wait for active webhooks, on the node that sends them; 0 on the others.", nil, nil)
	webhookOldest = prometheus.NewDesc("sluice_webhook_oldest_seconds",
		"Age of the oldest message that waits for an active webhook, on the node that sends them; 0 on the others.", nil, nil)
)

// Webhooks publishes what became of messages to webhooks. Call it at most once.
func (m *Metrics) Webhooks(read func() alerts.DeliveryTotals) {
	m.registry.MustRegister(webhookCollector{read})
}

// Describe implements prometheus.Collector.
func (webhookCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{webhookAttempts, webhookGivenUp, webhookWaiting, webhookOldest} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c webhookCollector) Collect(out chan<- prometheus.Metric) {
	t := c.read()
	send := func(d *prometheus.Desc, of prometheus.ValueType, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, of, n, labels...)
	}
	for _, result := range alerts.Results() {
		send(webhookAttempts, prometheus.CounterValue, float64(t.Attempts[result]), string(result))
	}
	send(webhookGivenUp, prometheus.CounterValue, float64(t.TooOld), "too_old")
	send(webhookGivenUp, prometheus.CounterValue, float64(t.TooMany), "too_many")
	send(webhookWaiting, prometheus.GaugeValue, float64(t.Waiting))
	send(webhookOldest, prometheus.GaugeValue, t.Oldest.Seconds())
}
