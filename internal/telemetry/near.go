package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/fleet"
	"sluice/limiter/nearstore"
)

// Near has the figures of the deny cache, of the leases of hot keys, and of the messages
// between nodes, since the start of the node.
type Near struct {
	nearstore.Stats
	Bus fleet.BusStats
}

// nearSeries reads one figure of Near.
type nearSeries struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*Near) int64
	with []string // label values
}

// nearCollector publishes Near.
type nearCollector struct {
	read   func() Near
	series []nearSeries
}

// Near publishes the figures of the deny cache and the leases. read is called at each
// scrape. Call it at most once.
func (m *Metrics) Near(read func() Near) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	fate := desc("sluice_hot_units_total",
		"Units of leases, by fate: leased (taken from the store), spent (by takes), returned (given back), lost (neither "+
			"spent nor returned).", "fate")
	forget := desc("sluice_forget_total",
		"Messages between nodes to forget a bucket, by way: told (sent), heard (received), lost (not sent).", "way")
	c, g := prometheus.CounterValue, prometheus.GaugeValue
	m.registry.MustRegister(&nearCollector{read: read, series: []nearSeries{
		{desc("sluice_deny_cache_remembered_total", "Denials added to the deny cache."), c,
			func(n *Near) int64 { return n.Remembered }, nil},
		{desc("sluice_deny_cache_answers_total", "Requests denied from the deny cache, without a call to the counter store."),
			c, func(n *Near) int64 { return n.Answered }, nil},
		{desc("sluice_deny_cache_drops_total", "Buckets removed from the deny cache because of a refund, charge or reset."),
			c, func(n *Near) int64 { return n.Dropped }, nil},
		{desc("sluice_deny_cache_buckets", "Buckets in the deny cache."), g, func(n *Near) int64 { return n.Held }, nil},
		{desc("sluice_hot_keys", "Keys that are hot on this node."), g, func(n *Near) int64 { return n.Hot }, nil},
		{desc("sluice_hot_keys_turned_total", "Times a key became hot on this node."), c,
			func(n *Near) int64 { return n.TurnedHot }, nil},
		{desc("sluice_hot_slices_total", "Leases of hot keys requested, each with one operation of the counter store."), c,
			func(n *Near) int64 { return n.Leases }, nil},
		{fate, c, func(n *Near) int64 { return n.Leased }, []string{"leased"}},
		{fate, c, func(n *Near) int64 { return n.Spent }, []string{"spent"}},
		{fate, c, func(n *Near) int64 { return n.Returned }, []string{"returned"}},
		{fate, c, func(n *Near) int64 { return n.Lost }, []string{"lost"}},
		{desc("sluice_hot_shard_probes_total", "Times another shard of a sharded key was tried because one had denied."), c,
			func(n *Near) int64 { return n.Probes }, nil},
		{forget, c, func(n *Near) int64 { return n.Bus.Sent }, []string{"told"}},
		{forget, c, func(n *Near) int64 { return n.Bus.Received }, []string{"heard"}},
		{forget, c, func(n *Near) int64 { return n.Bus.Lost }, []string{"lost"}},
	}})
}

// Describe implements prometheus.Collector.
func (c *nearCollector) Describe(ch chan<- *prometheus.Desc) {
	for i := range c.series {
		if i == 0 || c.series[i].desc != c.series[i-1].desc {
			ch <- c.series[i].desc
		}
	}
}

// Collect implements prometheus.Collector.
func (c *nearCollector) Collect(ch chan<- prometheus.Metric) {
	n := c.read()
	for _, s := range c.series {
		ch <- prometheus.MustNewConstMetric(s.desc, s.kind, float64(s.of(&n)), s.with...)
	}
}
