package updates

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/region"
)

// metrics serves the exchange between regions at each scrape.
type metrics struct{ read func() region.Overview }

// The label region is another region, of which there are at most 49. The label rule is one that spans regions and whose
// buckets this node has sent lately, at most 1,000.
var (
	regionLabel = []string{"region"}

	regionCutOff = prometheus.NewDesc("sluice_region_cut_off",
		"1 while this region has received no updates from the other one for three intervals, or that one has accepted "+
			"none.", regionLabel, nil)
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
	regionMaxOver = prometheus.NewDesc("sluice_region_max_over_percent",
		"max_over_percent of the rule.", []string{"rule"}, nil)
)

// Register registers the metrics of x.
func (x *Exchange) Register(to prometheus.Registerer) { to.MustRegister(metrics{x.Overview}) }

// Describe implements prometheus.Collector.
func (metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{regionCutOff, regionCutSeconds, regionLag, regionClock, regionSet, regionMessages,
		regionBytes, regionBuckets, regionWaiting, regionInvalid, regionOver, regionMaxOver} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m metrics) Collect(out chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, n, labels...)
	}
	gauge := func(d *prometheus.Desc, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
	}
	o := m.read()
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
		if !p.LastUpdate.IsZero() {
			gauge(regionSet, float64(p.Set), p.Name)
		}
		count(regionMessages, float64(p.Messages-p.Failures), p.Name, "taken")
		count(regionMessages, float64(p.Failures), p.Name, "failed")
		count(regionBytes, float64(p.Sent), p.Name, "sent")
		count(regionBytes, float64(p.Received), p.Name, "received")
		count(regionBuckets, float64(p.Accepted), p.Name, "sent")
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
