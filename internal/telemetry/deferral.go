package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/api/decide"
)

// deferral counts deferred requests by rule and result.
type deferral struct {
	done    map[string]*prometheus.CounterVec // by result: deferred, unknown, released, acked
	dropped *prometheus.CounterVec
	refused *prometheus.CounterVec
}

func newDeferral() deferral {
	d := deferral{
		done: map[string]*prometheus.CounterVec{
			"deferred": counters("sluice_deferred_total", "Denied requests that were queued for later, by rule.", "rule"),
			"unknown": counters("sluice_deferred_unknown_total",
				"Denied requests of which it is unknown whether they were queued, by rule.", "rule"),
			"released": counters("sluice_deferred_released_total",
				"Deferred requests that were released, by rule. A request that returns unacknowledged counts again.", "rule"),
			"acked": counters("sluice_deferred_acked_total", "Deferred requests that were acknowledged, by rule.", "rule"),
		},
		dropped: counters("sluice_deferred_dropped_total",
			"Deferred requests that were dropped, by rule and reason (expired, unreadable, by_hand).", "rule", "reason"),
		refused: counters("sluice_deferred_refused_total",
			"Requests that were denied because their queue could not accept them, by rule and reason (full, unavailable).",
			"rule", "reason"),
	}
	return d
}

func (d *deferral) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		d.done["deferred"], d.done["unknown"], d.done["released"], d.done["acked"], d.dropped, d.refused,
	}
}

// forget deletes the series with a label.
func (d *deferral) forget(label prometheus.Labels) {
	for _, c := range d.done {
		c.DeletePartialMatch(label)
	}
	d.dropped.DeletePartialMatch(label)
	d.refused.DeletePartialMatch(label)
}

// ObserveDeferral counts n requests of a rule that were deferred, perhaps deferred, released or acked, or
// dropped or refused for a reason. A rule that is no longer in force has the name "".
func (m *Metrics) ObserveDeferral(d decide.Deferral) {
	rule, reason, n := m.ruleNames.label(d.Rule), d.Reason, d.Count
	switch d.What {
	case decide.DeferralDropped:
		m.deferral.dropped.WithLabelValues(rule, reason).Add(float64(n))
	case decide.DeferralRefused:
		m.deferral.refused.WithLabelValues(rule, reason).Add(float64(n))
	default:
		if c := m.deferral.done[d.What]; c != nil {
			c.WithLabelValues(rule).Add(float64(n))
		}
	}
}
