package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/api/decide"
	"sluice/limiter/redisstore"
)

// CounterStore is where the figures about a shared counter store come from. All
// functions are required and are called at each scrape.
type CounterStore struct {
	Breakers func() []redisstore.Breaker
	// Nodes is the number of live nodes.
	Nodes func() int
	Units func() decide.LedgerStats
	// Slots is about a Redis Cluster; its zero value is true of a single server.
	Slots func() redisstore.Stats
}

var (
	breakerState   = prometheus.NewDesc("sluice_breaker_state", "Breaker in front of a server of the counter store: 0 closed, 1 half open, 2 open.", []string{"node"}, nil)
	breakerOpened  = prometheus.NewDesc("sluice_breaker_opened_total", "Times that breaker opened.", []string{"node"}, nil)
	breakerRefused = prometheus.NewDesc("sluice_breaker_refused_total", "Script calls that it did not let through.", []string{"node"}, nil)
	liveNodes      = prometheus.NewDesc("sluice_live_nodes", "Nodes that share the counter store, among which fail mode local divides a limit; the last known number while it is away.", nil, nil)
	localSpent     = prometheus.NewDesc("sluice_local_spent_units_total", "Units that fail mode local admitted.", nil, nil)
	localSettled   = prometheus.NewDesc("sluice_local_settled_units_total", "What became of them: reconciled (charged to the counter store), expired (no longer counted by then), doubtful (perhaps counted before the answer was lost), dropped.", []string{"fate"}, nil)
	localPending   = prometheus.NewDesc("sluice_local_pending_units", "Units that fail mode local admitted and the counter store does not know yet.", nil, nil)
	slotsSpanning  = prometheus.NewDesc("sluice_cluster_spanning_requests_total", "Requests whose limits live in different slots of a Redis Cluster.", nil, nil)
	slotsGiveBacks = prometheus.NewDesc("sluice_cluster_give_backs_total", "Parts of such requests that were given back because another limit denied or could not decide.", nil, nil)
	slotsPending   = prometheus.NewDesc("sluice_cluster_give_backs_pending", "Parts of such requests that could not be given back yet and are tried again; at most 100,000.", nil, nil)
	slotsLost      = prometheus.NewDesc("sluice_cluster_give_backs_lost_total", "Parts of requests that were not admitted of which it is not known whether anything is still taken.", nil, nil)
	slotsReloads   = prometheus.NewDesc("sluice_cluster_reloads_total", "Times the view of the cluster was loaded again after an error.", nil, nil)
)

// CounterStore publishes the figures of a shared counter store. Call it at most
// once.
func (m *Metrics) CounterStore(c CounterStore) { m.registry.MustRegister(c) }

// Describe implements prometheus.Collector.
func (CounterStore) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{breakerState, breakerOpened, breakerRefused, liveNodes, localSpent, localSettled, localPending, slotsSpanning, slotsGiveBacks, slotsPending, slotsLost, slotsReloads} {
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
