package share

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/region"
)

var (
	shareRatio = prometheus.NewDesc("sluice_region_share_ratio",
		"Part of the limit of a rule that this region may spend now.", []string{"rule"}, nil)
	unusedRatio = prometheus.NewDesc("sluice_region_share_unused_ratio",
		"Part of the limit of a rule that no region may spend, because it waits here to be lent or to be given back. Those "+
			"of all regions add up.", []string{"rule"}, nil)
	losses = prometheus.NewDesc("sluice_region_share_losses_total",
		"How often this node did not know what its region had lent.", nil, nil)
	lostNow = prometheus.NewDesc("sluice_region_share_lost",
		"1 while this node does not know what its region has lent, and spends the least part of divided limits.", nil, nil)
)

// Register registers the metrics of s.
func (s *Shares) Register(to prometheus.Registerer) { to.MustRegister(metrics{s.Overview}) }

// metrics serves the limits that are divided among regions at each scrape.
type metrics struct{ read func() region.Shares }

// Describe implements prometheus.Collector.
func (metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{shareRatio, unusedRatio, losses, lostNow} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m metrics) Collect(out chan<- prometheus.Metric) {
	o := m.read()
	out <- prometheus.MustNewConstMetric(losses, prometheus.CounterValue, float64(o.Losses))
	lost := 0.0
	if o.Lost || o.Failing {
		lost = 1
	}
	out <- prometheus.MustNewConstMetric(lostNow, prometheus.GaugeValue, lost)
	for _, r := range o.Rules {
		of := float64(max(r.Limit, 1))
		out <- prometheus.MustNewConstMetric(shareRatio, prometheus.GaugeValue, float64(r.Share)/of, r.Rule)
		out <- prometheus.MustNewConstMetric(unusedRatio, prometheus.GaugeValue, float64(r.Unused)/of, r.Rule)
	}
}
