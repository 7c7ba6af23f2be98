package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/region/exchange"
	"sluice/internal/region/sharing"
)

// regionCollector publishes the exchange between regions.
type regionCollector struct {
	read func() exchange.Overview
}

// Series of the exchange. The label region is another region, of which there are at most 49; rule is one that spans
// regions and whose buckets this node has told of lately, at most 1,000.
var (
	regionLabel = []string{"region"}

	regionCutOff = prometheus.NewDesc("sluice_region_cut_off",
		"1 while this region has had no news from the other one for three intervals.", regionLabel, nil)
	regionCutSeconds = prometheus.NewDesc("sluice_region_cut_off_seconds_total",
		"Time for which the other region was cut off since the start of this node.", regionLabel, nil)
	regionLag = prometheus.NewDesc("sluice_region_lag_seconds",
		"99th percentile of the time from a unit spent here to the moment at which the other region decides with it.",
		regionLabel, nil)
	regionClock = prometheus.NewDesc("sluice_region_clock_ahead_seconds",
		"How far the clock of the other region is ahead of that of this node.", regionLabel, nil)
	regionSet = prometheus.NewDesc("sluice_region_set_version",
		"Version of the rules of the other region when it last sent something.", regionLabel, nil)
	regionMessages = prometheus.NewDesc("sluice_region_messages_total",
		"Messages sent to the other region, by result: taken or failed.", []string{"region", "result"}, nil)
	regionBytes = prometheus.NewDesc("sluice_region_bytes_total",
		"Bytes of messages, by way: sent or received.", []string{"region", "way"}, nil)
	regionBuckets = prometheus.NewDesc("sluice_region_buckets_total",
		"Buckets in messages, by fate: sent (and taken); and of those received applied, repeated, shrunk and unknown.",
		[]string{"region", "fate"}, nil)
	regionWaiting = prometheus.NewDesc("sluice_region_waiting_buckets",
		"Buckets that this node has exported and some region lacks.", nil, nil)
	regionInvalid = prometheus.NewDesc("sluice_region_invalid_messages_total",
		"Messages of other regions that this node has refused.", nil, nil)
	regionOver = prometheus.NewDesc("sluice_region_over_percent",
		"Estimate of what a rule lets through too much because of this region, in percent of its limit. Those of all "+
			"regions add up.", []string{"rule"}, nil)
	regionShare = prometheus.NewDesc("sluice_region_share_ratio",
		"Part of the limit of a rule that this region may spend now.", []string{"rule"}, nil)
	regionShareUnused = prometheus.NewDesc("sluice_region_share_unused_ratio",
		"Part of the limit of a rule that no region may spend, because it waits here to be lent or to be given back. Those "+
			"of all regions add up.", []string{"rule"}, nil)
	regionShareLosses = prometheus.NewDesc("sluice_region_share_losses_total",
		"How often this node did not know what its region had lent.", nil, nil)
	regionShareLost = prometheus.NewDesc("sluice_region_share_lost",
		"1 while this node does not know what its region has lent, and spends the least part of divided limits.", nil, nil)
	regionMaxOver = prometheus.NewDesc("sluice_region_max_over_percent",
		"max_over_percent of the rule.", []string{"rule"}, nil)
)

// Regions publishes the exchange between regions. read is called at each scrape. Call it at most once.
func (m *Metrics) Regions(read func() exchange.Overview) {
	m.registry.MustRegister(regionCollector{read})
}

// Describe implements prometheus.Collector.
func (regionCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{regionCutOff, regionCutSeconds, regionLag, regionClock, regionSet, regionMessages,
		regionBytes, regionBuckets, regionWaiting, regionInvalid, regionOver, regionMaxOver} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c regionCollector) Collect(out chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, n, labels...)
	}
	gauge := func(d *prometheus.Desc, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
	}
	o := c.read()
	for i := range o.Peers {
		p := &o.Peers[i]
		cut := 0.0
		if p.CutOff {
			cut = 1
		}
		gauge(regionCutOff, cut, p.Name)
		count(regionCutSeconds, p.CutTotal.Seconds(), p.Name)
		if p.Lags > 0 {
			gauge(regionLag, p.LagP99.Seconds(), p.Name)
		}
		if p.SkewKnown {
			gauge(regionClock, p.Skew.Seconds(), p.Name)
		}
		if !p.LastNews.IsZero() {
			gauge(regionSet, float64(p.Set), p.Name)
		}
		count(regionMessages, float64(p.Messages-p.Failures), p.Name, "taken")
		count(regionMessages, float64(p.Failures), p.Name, "failed")
		count(regionBytes, float64(p.Sent), p.Name, "sent")
		count(regionBytes, float64(p.Received), p.Name, "received")
		count(regionBuckets, float64(p.Told), p.Name, "sent")
		count(regionBuckets, float64(p.Here.Applied), p.Name, "applied")
		count(regionBuckets, float64(p.Here.Repeated), p.Name, "repeated")
		count(regionBuckets, float64(p.Here.Shrunk), p.Name, "shrunk")
		count(regionBuckets, float64(p.Here.Unknown), p.Name, "unknown")
	}
	gauge(regionWaiting, float64(o.Waiting))
	count(regionInvalid, float64(o.Invalid))
	for _, r := range o.Rules {
		gauge(regionOver, r.OverPercent, r.Rule)
		gauge(regionMaxOver, float64(r.MaxOverPercent), r.Rule)
	}
}

// RegionShares publishes the limits that are divided among regions. read is called at each scrape. Call it at most
// once.
func (m *Metrics) RegionShares(read func() sharing.Overview) {
	m.registry.MustRegister(shareCollector{read})
}

type shareCollector struct{ read func() sharing.Overview }

// Describe implements prometheus.Collector.
func (shareCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{regionShare, regionShareUnused, regionShareLosses, regionShareLost} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c shareCollector) Collect(out chan<- prometheus.Metric) {
	o := c.read()
	out <- prometheus.MustNewConstMetric(regionShareLosses, prometheus.CounterValue, float64(o.Losses))
	lost := 0.0
	if o.Lost || o.Failing {
		lost = 1
	}
	out <- prometheus.MustNewConstMetric(regionShareLost, prometheus.GaugeValue, lost)
	for _, r := range o.Rules {
		of := float64(max(r.Limit, 1))
		out <- prometheus.MustNewConstMetric(regionShare, prometheus.GaugeValue, float64(r.Share)/of, r.Rule)
		out <- prometheus.MustNewConstMetric(regionShareUnused, prometheus.GaugeValue, float64(r.Unused)/of, r.Rule)
	}
}
