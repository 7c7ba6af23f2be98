package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/api/decide"
)

var (
	localSpent   = prometheus.NewDesc("sluice_local_spent_units_total", "Units that fail mode local admitted.", nil, nil)
	localSettled = prometheus.NewDesc("sluice_local_settled_units_total",
		"Units that fail mode local admitted and that are accounted for, by fate: reconciled (charged to the counter "+
			"store), expired (no longer counted by then), doubtful (possibly charged, the response was lost), dropped.",
		[]string{"fate"}, nil)
	localPending = prometheus.NewDesc("sluice_local_pending_units",
		"Units that fail mode local admitted and that are not yet charged to the counter store.", nil, nil)
)

// ledger serves the units of fail mode local at each scrape.
type ledger struct{ read func() decide.LedgerStats }

// Ledger publishes the units of fail mode local. Call it at most once.
func (m *Metrics) Ledger(read func() decide.LedgerStats) { m.MustRegister(ledger{read}) }

// Describe implements prometheus.Collector.
func (ledger) Describe(out chan<- *prometheus.Desc) {
	out <- localSpent
	out <- localSettled
	out <- localPending
}

// Collect implements prometheus.Collector.
func (l ledger) Collect(out chan<- prometheus.Metric) {
	u := l.read()
	out <- prometheus.MustNewConstMetric(localSpent, prometheus.CounterValue, float64(u.Spent))
	out <- prometheus.MustNewConstMetric(localPending, prometheus.GaugeValue, float64(u.Pending))
	for fate, units := range map[string]int64{"reconciled": u.Reconciled, "expired": u.Expired, "doubtful": u.Doubtful,
		"dropped": u.Dropped} {
		out <- prometheus.MustNewConstMetric(localSettled, prometheus.CounterValue, float64(units), fate)
	}
}
