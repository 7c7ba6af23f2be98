package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/api/decide"
	"sluice/limiter"
)

// account counts what was admitted and denied, and what decided. docs/metrics.md explains
// how its figures add up.
type account struct {
	requests *prometheus.CounterVec
	units    *prometheus.CounterVec
	doubt    *prometheus.CounterVec
}

// verdicts are the possible pairs of outcome and decider of a request. They are served
// from the start, so that no series is missing.
var verdicts = [][2]string{
	{"admitted", "store"}, {"admitted", "open"}, {"admitted", "local"},
	{"denied", "limit"}, {"denied", "closed"}, {"denied", "local"},
	{"replayed", "store"},
}

func newAccount() account {
	a := account{
		requests: counters("sluice_account_requests_total",
			"Takes and charges with at least one enforced limit, by outcome (admitted, denied, replayed) and by what decided "+
				"(store, limit, or the fail mode).", "outcome", "by"),
		units: counters("sluice_account_units_total",
			"Units of takes and charges, counted for each limit, by mode (enforce, shadow), outcome (admitted, denied, "+
				"replayed, refunded) and by what decided.", "mode", "outcome", "by"),
		doubt: counters("sluice_account_doubt_units_total",
			"Units that the counter store may have spent although its response was lost, by mode.", "mode"),
	}
	for _, v := range verdicts {
		a.requests.WithLabelValues(v[0], v[1])
		a.units.WithLabelValues("enforce", v[0], v[1])
	}
	a.units.WithLabelValues("enforce", "refunded", "store")
	a.doubt.WithLabelValues("enforce")
	return a
}

// The methods below observe the engine. They are called during checks, are safe for
// concurrent use, and do not block.

// ObserveDecision counts one operation, the time of its decision, and, for takes and
// charges, each of its limits.
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
	if a.Op != limiter.OpTake && a.Op != limiter.OpCharge { // peeks and corrections decide nothing
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

// ObserveUnits counts the units of one limit by result.
func (m *Metrics) ObserveUnits(u decide.Units) {
	m.series.units.get(unitsKey{u.Mode, u.Outcome, u.By}, func(k unitsKey) prometheus.Counter {
		return m.account.units.WithLabelValues(k.mode, k.outcome, k.by)
	}).Add(float64(u.Count))
}

// ObserveDoubt counts units of one limit for which the response of the store was lost.
func (m *Metrics) ObserveDoubt(d decide.Doubt) {
	m.account.doubt.WithLabelValues(d.Mode).Add(float64(d.Count))
}

var _ decide.Observer = (*Metrics)(nil)

func outcome(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}
