package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/api/decide"
	"sluice/limiter/redisstore"
)

// CounterStore is the source of the figures of a shared counter store. All functions
// are required and are called at each scrape.
type CounterStore struct {
	Breakers func() []redisstore.Breaker
	// Nodes is the number of live nodes.
	Nodes func() int
	Units func() decide.LedgerStats
	// Slots returns the figures of a Redis Cluster; zero for a single server.
	Slots func() redisstore.Stats
}

var (
	breakerState = prometheus.NewDesc("sluice_breaker_state",
		"State of the circuit breaker of a Redis server: 0 closed (healthy), 1 half-open, 2 open.", []string{"node"}, nil)
	breakerOpened = prometheus.NewDesc("sluice_breaker_opened_total",
		"Times the circuit breaker of a Redis server opened.", []string{"node"}, nil)
	breakerRefused = prometheus.NewDesc("sluice_breaker_refused_total", "Script calls that the circuit breaker rejected.",
		[]string{"node"}, nil)
	liveNodes = prometheus.NewDesc("sluice_live_nodes",
		"Nodes that share the counter store. Fail mode local divides limits by this number. While the store is "+
			"unavailable, the last known number.", nil, nil)
	localSpent   = prometheus.NewDesc("sluice_local_spent_units_total", "Units that fail mode local admitted.", nil, nil)
	localSettled = prometheus.NewDesc("sluice_local_settled_units_total",
		"Units that fail mode local admitted and that are accounted for, by fate: reconciled (charged to the counter "+
			"store), expired (no longer counted by then), doubtful (possibly charged, the response was lost), dropped.",
		[]string{"fate"}, nil)
	localPending = prometheus.NewDesc("sluice_local_pending_units",
		"Units that fail mode local admitted and that are not yet charged to the counter store.", nil, nil)
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

// CounterStore publishes the figures of a shared counter store. Call it at most
// once.
func (m *Metrics) CounterStore(c CounterStore) { m.registry.MustRegister(c) }

// Describe implements prometheus.Collector.
func (CounterStore) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{breakerState, breakerOpened, breakerRefused, liveNodes, localSpent, localSettled,
		localPending, slotsSpanning, slotsGiveBacks, slotsPending, slotsLost, slotsReloads} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c CounterStore) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, float64(v), labels...)
	}
	for _, b := range c.Breakers() {
		send(breakerState, prometheus.GaugeValue, int64(b.State), b.Node)
		send(breakerOpened, prometheus.CounterValue, b.Opened, b.Node)
		send(breakerRefused, prometheus.CounterValue, b.Refused, b.Node)
	}
	send(liveNodes, prometheus.GaugeValue, int64(c.Nodes()))
	u := c.Units()
	send(localSpent, prometheus.CounterValue, u.Spent)
	send(localPending, prometheus.GaugeValue, u.Pending)
	for _, f := range []struct {
		fate  string
		units int64
	}{{"reconciled", u.Reconciled}, {"expired", u.Expired}, {"doubtful", u.Doubtful}, {"dropped", u.Dropped}} {
		send(localSettled, prometheus.CounterValue, f.units, f.fate)
	}
	slots := c.Slots()
	send(slotsSpanning, prometheus.CounterValue, slots.Spanning)
	send(slotsGiveBacks, prometheus.CounterValue, slots.GiveBacks)
	send(slotsPending, prometheus.GaugeValue, slots.GiveBacksPending)
	send(slotsLost, prometheus.CounterValue, slots.GiveBacksLost)
	send(slotsReloads, prometheus.CounterValue, slots.Reloads)
}
