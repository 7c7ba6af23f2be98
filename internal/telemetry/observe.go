package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/limiter"
)

// The methods below hear what the decision surface did. They are called on the
// check path by any number of goroutines; none blocks.

// ObserveLimit counts one limit of one request.
func (m *Metrics) ObserveLimit(rule, mode string, allowed bool) {
	m.series.decisions.get(limitKey{m.ruleNames.label(rule), mode, outcome(allowed)}, func(k limitKey) prometheus.Counter {
		return m.decisions.WithLabelValues(k.rule, k.mode, k.outcome)
	}).Inc()
}

// ObserveRequest counts one request and how long deciding it took.
func (m *Metrics) ObserveRequest(op limiter.Op, allowed bool, took time.Duration) {
	m.series.durations.get(requestKey{op.String(), outcome(allowed)}, func(k requestKey) prometheus.Observer {
		return m.duration.WithLabelValues(k.first, k.second)
	}).Observe(took.Seconds())
}

// ObserveDegraded counts one limit that the counter store could not decide.
func (m *Metrics) ObserveDegraded(failMode string, cause limiter.Cause) {
	if failMode == "" {
		failMode = "none"
	}
	m.degraded.WithLabelValues(failMode, string(cause)).Inc()
}

// ObserveAbove counts one limit that let a request pass above itself.
func (m *Metrics) ObserveAbove(rule, throttle string) {
	m.above.WithLabelValues(m.ruleNames.label(rule), throttle).Inc()
}

// ObservePanic counts one request that ended in a panic.
func (m *Metrics) ObservePanic() { m.panics.Inc() }

func outcome(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}
