package telemetry

import "github.com/prometheus/client_golang/prometheus"

// account is what was admitted and denied, and by whom; docs/metrics.md gives
// the sum that it closes.
type account struct {
	requests *prometheus.CounterVec
	units    *prometheus.CounterVec
	doubt    *prometheus.CounterVec
}

// verdicts are the pairs of outcome and decider that a request may have. They
// are served from the start, so that a missing one is never read as unknown.
var verdicts = [][2]string{
	{"admitted", "store"}, {"admitted", "open"}, {"admitted", "local"},
	{"denied", "limit"}, {"denied", "closed"}, {"denied", "local"},
	{"replayed", "store"},
}

func newAccount() account {
	a := account{
		requests: counters("sluice_account_requests_total",
			"Takes and charges that an enforced limit applied to, by outcome (admitted, denied, replayed) and who decided (store, limit, or the fail mode).", "outcome", "by"),
		units: counters("sluice_account_units_total",
			"Units of those requests, counted for each limit, by mode (enforce, shadow), outcome (also refunded) and who decided.", "mode", "outcome", "by"),
		doubt: counters("sluice_account_doubt_units_total",
			"Units that the counter store may have spent although its answer was lost, by mode.", "mode"),
	}
	for _, v := range verdicts {
		a.requests.WithLabelValues(v[0], v[1])
		a.units.WithLabelValues("enforce", v[0], v[1])
	}
	a.units.WithLabelValues("enforce", "refunded", "store")
	a.doubt.WithLabelValues("enforce")
	return a
}

// ObserveAccount counts one take or charge by what became of it.
func (m *Metrics) ObserveAccount(outcome, by string) {
	m.series.requests.get(requestKey{outcome, by}, func(k requestKey) prometheus.Counter {
		return m.account.requests.WithLabelValues(k.first, k.second)
	}).Inc()
}

// ObserveUnits counts the units of one limit by what became of them.
func (m *Metrics) ObserveUnits(mode, outcome, by string, units int64) {
	m.series.units.get(unitsKey{mode, outcome, by}, func(k unitsKey) prometheus.Counter {
		return m.account.units.WithLabelValues(k.mode, k.outcome, k.by)
	}).Add(float64(units))
}

// ObserveDoubt counts units of one limit whose answer was lost.
func (m *Metrics) ObserveDoubt(mode string, units int64) {
	m.account.doubt.WithLabelValues(mode).Add(float64(units))
}
