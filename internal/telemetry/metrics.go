package telemetry

import (
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice/rules"
	"sluice/rules/match"
)

// Metrics is the registry of the process, with the metrics of checks. It is safe for concurrent use.
type Metrics struct {
	*prometheus.Registry

	ruleNames names
	poolNames names
	envoy     *envoy
	quota     *quota
	series    series

	decisions *prometheus.CounterVec
	degraded  *prometheus.CounterVec
	account   account
	deferral  deferral
	above     *prometheus.CounterVec
	bans      *prometheus.CounterVec
	shed      *prometheus.CounterVec
	overload  *prometheus.CounterVec
	checks    checks
	starved   atomic.Int64
	stages    stages
	panics    prometheus.Counter
	large     prometheus.Counter
	questions *prometheus.CounterVec
	plain     plainChecks

	conditions prometheus.Counter
	condition  prometheus.Histogram
}

// New creates the registry.
func New(build Build) *Metrics {
	m := &Metrics{
		Registry:  prometheus.NewRegistry(),
		ruleNames: names{most: maxRuleLabels},
		poolNames: names{most: maxRuleLabels},
		envoy:     newEnvoy(),
		quota:     newQuota(),
		decisions: counters("sluice_decisions_total",
			"Limits decided, by rule (the first 1000 names, then other; default for direct checks), mode and outcome "+
				"(allowed, denied).", "rule", "mode", "outcome"),
		degraded: counters("sluice_degraded_total",
			"Limits that the counter store could not decide, by the fail mode that decided (open, closed, local; none for "+
				"refunds and shadow rules) and cause.", "mode", "cause"),
		account:  newAccount(),
		deferral: newDeferral(),
		plain:    newPlainChecks(),
		above: counters("sluice_above_limit_total",
			"Requests admitted above an enforced limit, by rule and throttle (soft, elastic).", "rule", "throttle"),
		bans: counters("sluice_bans_total", "Bans that began, by rule.", "rule"),
		shed: counters("sluice_shed_total", "Requests that a shedding pool denied within their limits, by pool and priority.",
			"pool", "priority"),
		overload: counters("sluice_overloaded_total", "Requests that the counter store had no turn for, by how: deny (a "+
			"limit says deny), wait (waited as long as the caller does). None of them was decided by a fail mode.", "how"),
		panics: prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_panics_total",
			Help: "Requests that ended in a panic. Each one is a bug."}),
		large: prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_large_refused_total",
			Help: "Large batches that were refused because as many as there are processors were under way."}),
		questions: counters("sluice_gateway_questions_total",
			"Questions of gateways, by face (forward, nginx, ext_authz) and result (allowed, denied, unavailable, skipped, "+
				"missing_fact, unknown_profile, no_proof, missing_header, bad_header, not_ready, error).", "face", "result"),
		conditions: prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_condition_failures_total",
			Help: "Times the condition of a rule could not be evaluated and counted as true."}),
		condition: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_condition_duration_seconds",
			Help: "Time of one evaluation of the condition of one rule.",
			Buckets: []float64{.000001, .0000025, .000005, .00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01,
				.025, .05, .1, .25},
		}),
	}
	starved := prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "sluice_starved_total",
		Help: "Checks during which this node lacked CPU for longer than the store timeout, so that they were late.",
	}, func() float64 { return float64(m.starved.Load()) })
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_build_info",
		Help: "Always 1. The labels identify the build.",
		ConstLabels: prometheus.Labels{"version": build.Version, "revision": build.Revision,
			"modified": strconv.FormatBool(build.Modified), "go": build.Go}})
	info.Set(1)
	m.MustRegister(m.deferral.collectors()...)
	m.MustRegister(m.envoy.collectors()...)
	m.MustRegister(m.quota.collectors()...)
	m.MustRegister(m.plain.checks, m.plain.handedOver)
	m.MustRegister(m.questions, m.above, m.bans, m.shed, m.overload, m.account.units, m.account.doubt, m.large)
	m.MustRegister(m.decisions, m.degraded, &m.checks, &m.stages, m.panics, m.conditions, m.condition,
		starved, info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, how := range []string{rules.OverloadDeny, rules.OverloadWait} {
		m.overload.WithLabelValues(how)
	}
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Handler serves the registry in the Prometheus text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Swapped deletes the series of rules, pools and domains that are not in the set in force. A check that is under way
// may create such a series again, which the next swap deletes.
func (m *Metrics) Swapped(set *match.Set) {
	m.envoy.swapped(set)
	for _, pool := range m.poolNames.remove(func(name string) bool { return set.Pool(name) == nil }) {
		m.shed.DeletePartialMatch(prometheus.Labels{"pool": pool})
	}
	gone := func(name string) bool {
		return name != "" && name != rules.DirectRule && set.Named(name) == nil
	}
	removed := m.ruleNames.remove(gone)
	for _, name := range m.series.rules.forget(gone) {
		if name != otherNames && !slices.Contains(removed, name) {
			removed = append(removed, name)
		}
	}
	for _, name := range removed {
		label := prometheus.Labels{"rule": name}
		m.decisions.DeletePartialMatch(label)
		m.above.DeletePartialMatch(label)
		m.bans.DeletePartialMatch(label)
		m.deferral.forget(label)
	}
}

// ConditionFailed records that the condition of a rule could not be evaluated. The rule
// is not a label.
func (m *Metrics) ConditionFailed(*rules.Rule) { m.conditions.Inc() }

// ConditionTook records the time of one evaluation of a condition. The rule is not a
// label: explain and the page of a rule show which rule is slow.
func (m *Metrics) ConditionTook(d time.Duration) { m.condition.Observe(d.Seconds()) }
