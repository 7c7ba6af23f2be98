package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/api/decide"
)

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
			"Takes and charges with at least one enforced limit, by outcome (admitted, denied, replayed) and by what decided (store, limit, or the fail mode).", "outcome", "by"),
		units: counters("sluice_account_units_total",
			"Units of takes and charges, counted for each limit, by mode (enforce, shadow), outcome (admitted, denied, replayed, refunded) and by what decided.", "mode", "outcome", "by"),
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

// ObserveUnits counts the units of one limit by what became of them.
func (m *Metrics) ObserveUnits(u decide.Units) {
	m.series.units.get(unitsKey{u.Mode, u.Outcome, u.By}, func(k unitsKey) prometheus.Counter {
		return m.account.units.WithLabelValues(k.mode, k.outcome, k.by)
	}).Add(float64(u.Count))
}

// ObserveDoubt counts units of one limit whose answer was lost.
func (m *Metrics) ObserveDoubt(d decide.Doubt) {
	m.account.doubt.WithLabelValues(d.Mode).Add(float64(d.Count))
}
