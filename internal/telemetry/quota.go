package telemetry

import "github.com/prometheus/client_golang/prometheus"

// quota counts what proxies hold by Envoy's quota service.
type quota struct {
	streams, holders prometheus.Gauge
	units, refused   *prometheus.CounterVec
}

func newQuota() *quota {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	return &quota{
		streams: gauge("sluice_envoy_quota_streams", "Streams of Envoy's quota service."),
		holders: gauge("sluice_envoy_quota_holders", "Buckets of these streams, each counted for each stream."),
		units: counters("sluice_envoy_quota_units_total",
			"Units of proxies, by what: granted (charged and sent), spent and denied (reported), returned.", "what"),
		refused: counters("sluice_envoy_quota_refused_total",
			"Streams, and questions about buckets, that were refused, by reason.", "reason"),
	}
}

func (q *quota) collectors() []prometheus.Collector {
	return []prometheus.Collector{q.streams, q.holders, q.units, q.refused}
}

// EnvoyQuota serves the series of the quota service from the start.
func (m *Metrics) EnvoyQuota(units, refusals []string) {
	for _, what := range units {
		m.quota.units.WithLabelValues(what)
	}
	for _, reason := range refusals {
		m.quota.refused.WithLabelValues(reason)
	}
}

// HoldQuota says how many streams there are, and how many buckets they have.
func (m *Metrics) HoldQuota(streams, holders int) {
	m.quota.streams.Set(float64(streams))
	m.quota.holders.Set(float64(holders))
}

// CountQuota counts units.
func (m *Metrics) CountQuota(what string, units int64) {
	m.quota.units.WithLabelValues(what).Add(float64(units))
}

// RefuseQuota counts a refusal.
func (m *Metrics) RefuseQuota(reason string) { m.quota.refused.WithLabelValues(reason).Inc() }
