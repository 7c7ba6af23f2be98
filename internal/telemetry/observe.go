package telemetry

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
)

// account counts the units that were admitted and denied, and what decided; checks counts the
// requests. docs/metrics.md explains how the figures add up.
type account struct {
	units *prometheus.CounterVec
	doubt *prometheus.CounterVec
}

// verdicts are the possible pairs of outcome and decider of a request. They are served
// from the start, so that no series is missing.
var verdicts = [][2]string{
	{"admitted", "store"}, {"admitted", "open"}, {"admitted", "local"},
	{"denied", "limit"}, {"denied", "closed"}, {"denied", "local"},
	{"replayed", "store"}, {"overloaded", "deny"}, {"overloaded", "wait"},
	{"admitted", "caller"}, {"denied", "caller"},
}

func newAccount() account {
	a := account{
		units: counters("sluice_account_units_total",
			"Units of takes and charges, counted for each limit, by mode (enforce, shadow), outcome (admitted, denied, "+
				"replayed, refunded, overloaded) and by what decided.", "mode", "outcome", "by"),
		doubt: counters("sluice_account_doubt_units_total",
			"Units that the counter store may have spent although its response was lost, by mode.", "mode"),
	}
	for _, v := range verdicts {
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
	if !d.Untimed {
		m.checks.observe(d)
	}
	if d.Starved {
		m.starved.Add(1)
	}
	if d.Settled != nil && d.Settled.Decisions != nil {
		m.observeCaller(a, d.Settled.Decisions)
	}
	if a.Op != limiter.OpTake && a.Op != limiter.OpCharge || d.Lease { // peeks and corrections decide nothing
		return
	}
	for i := range a.Limits {
		la := &a.Limits[i]
		if la.Returned || la.Overloaded {
			continue
		}
		of := m.ofRule(la.Series())
		name := of.label
		of.decisions.get(limitKey{la.Mode(), la.Decision.Allowed}, func(k limitKey) prometheus.Counter {
			return m.decisions.WithLabelValues(name, k.mode, outcome(k.allowed))
		}).Inc()
		if (la.Soft || la.Elastic) && !la.Shadow {
			m.above.WithLabelValues(name, la.Throttle()).Inc()
		}
		if la.Decision.BanBegan {
			m.bans.WithLabelValues(name).Inc()
		}
		if la.Shed != "" && !la.Shadow && a.Verdict == decide.Shed && !shedBefore(a.Limits[:i], la) {
			m.shed.WithLabelValues(m.poolNames.label(la.Shed), la.Priority).Inc()
		}
	}
}

// observeCaller counts decisions that a caller has reported. The strictest limit is the limit that denied. Requests
// without a limit are not counted.
func (m *Metrics) observeCaller(a *decide.Answer, by *decide.Decisions) {
	if len(a.Limits) > 0 {
		m.checks.callers.allowed.Add(by.Allowed)
		m.checks.callers.denied.Add(by.Denied)
	}
	for i := range a.Limits {
		la := &a.Limits[i]
		allowed, denied := by.Allowed+by.Denied, int64(0)
		if i == a.Strictest {
			allowed, denied = by.Allowed, by.Denied
		}
		of := m.ofRule(la.Series())
		for is, n := range map[bool]int64{true: allowed, false: denied} {
			if n > 0 {
				of.decisions.get(limitKey{la.Mode(), is}, func(k limitKey) prometheus.Counter {
					return m.decisions.WithLabelValues(of.label, k.mode, outcome(k.allowed))
				}).Add(float64(n))
			}
		}
	}
}

// shedBefore reports whether the request was already counted for the pool and priority of la.
func shedBefore(limits []decide.LimitAnswer, la *decide.LimitAnswer) bool {
	return slices.ContainsFunc(limits, func(l decide.LimitAnswer) bool {
		return !l.Shadow && l.Shed == la.Shed && l.Priority == la.Priority
	})
}

// ObserveDegraded counts one limit that the counter store could not decide.
func (m *Metrics) ObserveDegraded(d decide.Degraded) {
	failMode := d.FailMode
	if failMode == "" {
		failMode = "none"
	}
	m.degraded.WithLabelValues(failMode, string(d.Cause)).Inc()
}

// ObserveOverload counts one request that the counter store had no turn for.
func (m *Metrics) ObserveOverload(impatient bool) {
	how := rules.OverloadWait
	if impatient {
		how = rules.OverloadDeny
	}
	m.overload.WithLabelValues(how).Inc()
}

// CountPanic counts one request that ended in a panic.
func (m *Metrics) CountPanic() { m.panics.Inc() }

// CountLargeRefused counts a large batch that found no place.
func (m *Metrics) CountLargeRefused() { m.large.Inc() }

// Questions serves the series of gateways' questions from the start, so that their first counts are
// an increase.
func (m *Metrics) Questions(faces, results []string) {
	for _, face := range faces {
		for _, result := range results {
			m.questions.WithLabelValues(face, result)
		}
	}
}

// CountQuestion counts one question of a gateway. Both words are from the lists of package
// gateway.
func (m *Metrics) CountQuestion(face, result string) {
	m.series.questions.get(questionKey{face, result}, func(k questionKey) prometheus.Counter {
		return m.questions.WithLabelValues(k.face, k.result)
	}).Inc()
}

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

// ruleSeries are the series of a rule that every check counts in.
type ruleSeries struct {
	label     string
	decisions fewHandles[limitKey, prometheus.Counter]
}

// limitKey is the labels of sluice_decisions_total, without the rule.
type limitKey struct {
	mode    string
	allowed bool
}

// ofRule returns the series of a rule. All rules beyond the bound on names share the series of otherNames.
func (m *Metrics) ofRule(name string) *ruleSeries {
	if of, ok := m.series.rules.find(name); ok {
		return of
	}
	return m.series.rules.get(m.ruleNames.label(name), func(label string) *ruleSeries { return &ruleSeries{label: label} })
}

// unitsKey is the labels of sluice_account_units_total.
type unitsKey struct{ mode, outcome, by string }

// questionKey is the labels of sluice_gateway_questions_total.
type questionKey struct{ face, result string }

// series caches the series that every check counts in.
type series struct {
	rules     handles[string, *ruleSeries]
	units     fewHandles[unitsKey, prometheus.Counter]
	questions fewHandles[questionKey, prometheus.Counter]
}

// maxRuleLabels bounds the names of rules that become label values, so that a large
// catalogue does not flood the metric store.
const maxRuleLabels = 1000

// otherNames is the label of every name beyond the bound.
const otherNames = "other"

// names holds the first names that became label values. Reading takes no lock.
type names struct {
	most int // the bound

	mu   sync.Mutex
	seen atomic.Pointer[map[string]struct{}]
}

// label returns name itself, or otherNames once the bound is reached.
func (n *names) label(name string) string {
	if seen := n.seen.Load(); seen != nil {
		if _, ok := (*seen)[name]; ok {
			return name
		}
		if len(*seen) >= n.most {
			return otherNames
		}
	}
	return n.admit(name)
}

func (n *names) admit(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := map[string]struct{}{}
	if seen := n.seen.Load(); seen != nil {
		if _, ok := (*seen)[name]; ok {
			return name
		}
		if len(*seen) >= n.most {
			return otherNames
		}
		next = maps.Clone(*seen)
	}
	next[name] = struct{}{}
	n.seen.Store(&next)
	return name
}

// remove removes the names that deleted selects and returns them.
func (n *names) remove(deleted func(name string) bool) (removed []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := n.seen.Load()
	if seen == nil {
		return nil
	}
	next := make(map[string]struct{}, len(*seen))
	for name := range *seen {
		if deleted(name) {
			removed = append(removed, name)
			continue
		}
		next[name] = struct{}{}
	}
	if len(removed) > 0 {
		n.seen.Store(&next)
	}
	return removed
}
