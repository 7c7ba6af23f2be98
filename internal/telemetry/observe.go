package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/api/decide"
	"sluice/limiter"
)

// The methods below hear what the engine did. They are called on the
// check path by any number of goroutines; none blocks.

// ObserveDecision counts one operation, how long deciding took, and, where it
// spends, each of its limits.
func (m *Metrics) ObserveDecision(d *decide.Decision) {
	a := d.Answer
	m.series.durations.get(requestKey{a.Op.String(), outcome(a.Allowed())}, func(k requestKey) prometheus.Observer {
		return m.duration.WithLabelValues(k.first, k.second)
	}).Observe(d.Took.Seconds())
	if d.Outcome != "" {
		m.series.requests.get(requestKey{d.Outcome, d.By}, func(k requestKey) prometheus.Counter {
			return m.account.requests.WithLabelValues(k.first, k.second)
		}).Inc()
	}
	if a.Op != limiter.OpTake && a.Op != limiter.OpCharge { // looks and corrections decide nothing
		return
	}
	for i := range a.Limits {
		la := &a.Limits[i]
		name := m.ruleNames.label(la.Name())
		m.series.decisions.get(limitKey{name, la.Mode(), outcome(la.Decision.Allowed)}, func(k limitKey) prometheus.Counter {
			return m.decisions.WithLabelValues(k.rule, k.mode, k.outcome)
		}).Inc()
		if (la.Soft || la.Elastic) && !la.Shadow {
			m.above.WithLabelValues(name, la.Throttle()).Inc()
		}
	}
}

// ObserveDegraded counts one limit that the counter store could not decide.
func (m *Metrics) ObserveDegraded(d decide.Degraded) {
	failMode := d.FailMode
	if failMode == "" {
		failMode = "none"
	}
	m.degraded.WithLabelValues(failMode, string(d.Cause)).Inc()
}

// CountPanic counts one request that ended in a panic.
func (m *Metrics) CountPanic() { m.panics.Inc() }

var _ decide.Observer = (*Metrics)(nil)

func outcome(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}
