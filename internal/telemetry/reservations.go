package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/api/decide"
)

var (
	openUnits = prometheus.NewDesc("sluice_reservations_open_units",
		"Units that open reservations hold, on all nodes, by rule; a few seconds old.", []string{"rule"}, nil)
	expiredUnits = prometheus.NewDesc("sluice_reservations_expired_units_total",
		"Units of reservations that nobody settled in time and that this node dealt with, by rule and fate: kept (they stay "+
			"charged) or refunded.", []string{"rule", "fate"}, nil)
)

// reservations serves the units of reservations at each scrape.
type reservations struct{ of *decide.OpenReservations }

// Reservations publishes the units of open and expired reservations. Call it at most once.
func (m *Metrics) Reservations(of *decide.OpenReservations) { m.MustRegister(reservations{of}) }

// Describe implements prometheus.Collector.
func (reservations) Describe(out chan<- *prometheus.Desc) {
	out <- openUnits
	out <- expiredUnits
}

// Collect implements prometheus.Collector.
func (r reservations) Collect(out chan<- prometheus.Metric) {
	for rule, n := range r.of.Units() {
		out <- prometheus.MustNewConstMetric(openUnits, prometheus.GaugeValue, float64(n), rule)
	}
	for e, n := range r.of.Expired() {
		fate := "refunded"
		if e.Kept {
			fate = "kept"
		}
		out <- prometheus.MustNewConstMetric(expiredUnits, prometheus.CounterValue, float64(n), e.Rule, fate)
	}
}
