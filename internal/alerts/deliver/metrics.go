package deliver

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/alerts"
)

var (
	attempts = prometheus.NewDesc("sluice_webhook_attempts_total",
		"Messages that this node sent to webhooks, by result (delivered, status, gone, no_answer, refused).",
		[]string{"result"}, nil)
	givenUp = prometheus.NewDesc("sluice_webhook_given_up_total",
		"Messages that this node gave up, by reason (too_old, too_many).", []string{"reason"}, nil)
	waiting = prometheus.NewDesc("sluice_webhook_waiting",
		"Messages that wait for active webhooks, on the node that sends them; 0 on the others.", nil, nil)
	oldest = prometheus.NewDesc("sluice_webhook_oldest_seconds",
		"Age of the oldest message that waits for an active webhook, on the node that sends them; 0 on the others.", nil, nil)
)

// Register registers the metrics of w.
func (w *Worker) Register(to prometheus.Registerer) { to.MustRegister(metrics{w.Totals}) }

// metrics serves what became of messages at each scrape.
type metrics struct{ read func() alerts.DeliveryTotals }

// Describe implements prometheus.Collector.
func (metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{attempts, givenUp, waiting, oldest} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m metrics) Collect(out chan<- prometheus.Metric) {
	t := m.read()
	send := func(d *prometheus.Desc, of prometheus.ValueType, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, of, n, labels...)
	}
	for _, result := range alerts.Results() {
		send(attempts, prometheus.CounterValue, float64(t.Attempts[result]), string(result))
	}
	send(givenUp, prometheus.CounterValue, float64(t.TooOld), "too_old")
	send(givenUp, prometheus.CounterValue, float64(t.TooMany), "too_many")
	send(waiting, prometheus.GaugeValue, float64(t.Waiting))
	send(oldest, prometheus.GaugeValue, t.Oldest.Seconds())
}
