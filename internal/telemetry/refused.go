package telemetry

import "github.com/prometheus/client_golang/prometheus"

// refusals counts the calls that were refused for their credentials.
type refusals struct {
	total  *prometheus.CounterVec
	series handles[refusedKey, prometheus.Counter]
}

// refusedKey is the labels of sluice_refused_total.
type refusedKey struct{ endpoint, reason string }

func newRefusals() *refusals {
	return &refusals{total: counters("sluice_refused_total",
		"Calls without sufficient credentials, by endpoint and reason (none, unknown, expired, revoked, scope, not_open, "+
			"not_loaded).", "endpoint", "reason")}
}

// Refusals serves the series of refused calls from the start, so that their first counts are an increase.
func (m *Metrics) Refusals(endpoints, reasons []string) {
	for _, endpoint := range endpoints {
		for _, reason := range reasons {
			m.refusals.total.WithLabelValues(endpoint, reason)
		}
	}
}

// CountRefused counts one call without sufficient credentials. Both words are from the lists that Refusals got.
func (m *Metrics) CountRefused(endpoint, reason string) {
	m.refusals.series.get(refusedKey{endpoint, reason}, func(k refusedKey) prometheus.Counter {
		return m.refusals.total.WithLabelValues(k.endpoint, k.reason)
	}).Inc()
}
