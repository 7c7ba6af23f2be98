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
	droppedChanges = prometheus.NewDesc("sluice_reservations_dropped_changes_total",
		"Changes of the list of open reservations that this node dropped, because too many waited to be written (queue) or "+
			"the list in memory was full (list).", []string{"reason"}, nil)
	givenUp = prometheus.NewDesc("sluice_reservations_given_up_total",
		"Expired reservations that this node gave up, because each settlement of them failed. They stay charged.", nil, nil)
)

// reservations serves the units of reservations at each scrape.
type reservations struct{ of *decide.OpenReservations }

// Reservations publishes the units of open and expired reservations. Call it at most once.
func (m *Metrics) Reservations(of *decide.OpenReservations) { m.MustRegister(reservations{of}) }

// Describe implements prometheus.Collector.
func (reservations) Describe(out chan<- *prometheus.Desc) {
	out <- openUnits
	out <- expiredUnits
	out <- droppedChanges
	out <- givenUp
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
	drops := r.of.Drops()
	out <- prometheus.MustNewConstMetric(droppedChanges, prometheus.CounterValue, float64(drops.Queue), "queue")
	out <- prometheus.MustNewConstMetric(droppedChanges, prometheus.CounterValue, float64(drops.List), "list")
	out <- prometheus.MustNewConstMetric(givenUp, prometheus.CounterValue, float64(r.of.GivenUp()))
}
