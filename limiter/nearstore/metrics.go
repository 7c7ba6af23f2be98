package nearstore

import "github.com/prometheus/client_golang/prometheus"

// metrics serves the figures of a Store at each scrape.
type metrics struct {
	read   func() Stats
	series []series
}

// series reads one of the figures.
type series struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*Stats) int64
	with []string // label values
}

// Register registers the metrics of s.
func (s *Store) Register(to prometheus.Registerer) { to.MustRegister(newMetrics(s.Stats)) }

func newMetrics(read func() Stats) *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	fate := desc("sluice_hot_units_total",
		"Units of leases, by fate: leased (taken from the store), spent (by takes), returned (given back), lost (neither "+
			"spent nor returned).", "fate")
	c, g := prometheus.CounterValue, prometheus.GaugeValue
	return &metrics{read: read, series: []series{
		{desc("sluice_deny_cache_remembered_total", "Denials added to the deny cache."), c,
			func(n *Stats) int64 { return n.Remembered }, nil},
		{desc("sluice_deny_cache_answers_total", "Requests denied from the deny cache, without a call to the counter store."),
			c, func(n *Stats) int64 { return n.Answered }, nil},
		{desc("sluice_deny_cache_drops_total", "Buckets removed from the deny cache because of a refund, charge or reset."),
			c, func(n *Stats) int64 { return n.Dropped }, nil},
		{desc("sluice_deny_cache_buckets", "Buckets in the deny cache."), g, func(n *Stats) int64 { return n.Held }, nil},
		{desc("sluice_hot_keys", "Keys that are hot on this node."), g, func(n *Stats) int64 { return n.Hot }, nil},
		{desc("sluice_hot_keys_turned_total", "Times a key became hot on this node."), c,
			func(n *Stats) int64 { return n.TurnedHot }, nil},
		{desc("sluice_hot_slices_total", "Leases of hot keys requested, each with one operation of the counter store."), c,
			func(n *Stats) int64 { return n.Leases }, nil},
		{fate, c, func(n *Stats) int64 { return n.Leased }, []string{"leased"}},
		{fate, c, func(n *Stats) int64 { return n.Spent }, []string{"spent"}},
		{fate, c, func(n *Stats) int64 { return n.Returned }, []string{"returned"}},
		{fate, c, func(n *Stats) int64 { return n.Lost }, []string{"lost"}},
		{desc("sluice_hot_shard_probes_total", "Times another shard of a sharded key was tried because one had denied."), c,
			func(n *Stats) int64 { return n.Probes }, nil},
	}}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for i := range m.series {
		if i == 0 || m.series[i].desc != m.series[i-1].desc {
			ch <- m.series[i].desc
		}
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	n := m.read()
	for _, s := range m.series {
		ch <- prometheus.MustNewConstMetric(s.desc, s.kind, float64(s.of(&n)), s.with...)
	}
}
