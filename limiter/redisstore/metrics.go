package redisstore

import "github.com/prometheus/client_golang/prometheus"

var (
	breakerState = prometheus.NewDesc("sluice_breaker_state",
		"State of the circuit breaker of a Redis server: 0 closed (healthy), 1 half-open, 2 open.", []string{"node"}, nil)
	breakerOpened = prometheus.NewDesc("sluice_breaker_opened_total",
		"Times the circuit breaker of a Redis server opened.", []string{"node"}, nil)
	breakerRefused = prometheus.NewDesc("sluice_breaker_refused_total", "Script calls that the circuit breaker rejected.",
		[]string{"node"}, nil)
	slotsSpanning = prometheus.NewDesc("sluice_cluster_spanning_requests_total",
		"Requests whose limits are in different slots of a Redis Cluster.", nil, nil)
	slotsGiveBacks = prometheus.NewDesc("sluice_cluster_give_backs_total",
		"Parts of requests across slots that were undone because another limit denied or could not decide.", nil, nil)
	slotsPending = prometheus.NewDesc("sluice_cluster_give_backs_pending",
		"Parts of requests across slots that are still to be undone and are retried; at most 100,000.", nil, nil)
	slotsLost = prometheus.NewDesc("sluice_cluster_give_backs_lost_total",
		"Parts of requests across slots that were not admitted and may still count, because undoing them could not be "+
			"confirmed.", nil, nil)
	slotsReloads = prometheus.NewDesc("sluice_cluster_reloads_total",
		"Times the slot map of the cluster was reloaded after an error.", nil, nil)
)

// Register registers the metrics of the circuit breakers of s and of a Redis Cluster. The latter are 0 for a single
// server.
func (s *Store) Register(to prometheus.Registerer) { to.MustRegister(metrics{s.Breakers, s.Stats}) }

// metrics serves the figures of a Store at each scrape.
type metrics struct {
	breakers func() []Breaker
	slots    func() Stats
}

// Describe implements prometheus.Collector.
func (metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{breakerState, breakerOpened, breakerRefused, slotsSpanning, slotsGiveBacks,
		slotsPending, slotsLost, slotsReloads} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m metrics) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, float64(v), labels...)
	}
	for _, b := range m.breakers() {
		send(breakerState, prometheus.GaugeValue, int64(b.State), b.Node)
		send(breakerOpened, prometheus.CounterValue, b.Opened, b.Node)
		send(breakerRefused, prometheus.CounterValue, b.Refused, b.Node)
	}
	slots := m.slots()
	send(slotsSpanning, prometheus.CounterValue, slots.Spanning)
	send(slotsGiveBacks, prometheus.CounterValue, slots.GiveBacks)
	send(slotsPending, prometheus.GaugeValue, slots.GiveBacksPending)
	send(slotsLost, prometheus.CounterValue, slots.GiveBacksLost)
	send(slotsReloads, prometheus.CounterValue, slots.Reloads)
}
