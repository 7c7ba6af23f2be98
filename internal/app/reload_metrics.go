package app

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/rules/match"
)

// ruleMetrics are the metrics of the rules in force and of their local copies. It is safe for concurrent use.
type ruleMetrics struct {
	version, rules, overrides prometheus.Gauge
	swaps                     prometheus.Counter
	source                    *prometheus.GaugeVec
	failures, copies          *prometheus.CounterVec
	// confirmed is when the database last confirmed the set in force, ms since the epoch; 0 before the first time.
	confirmed atomic.Int64
}

// The sources of rules, as label values.
const (
	fromDatabase = "database"
	fromCopy     = "copy"
)

// newRuleMetrics registers the metrics, at first without a source.
func newRuleMetrics(to prometheus.Registerer, now func() time.Time) *ruleMetrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &ruleMetrics{
		version:   gauge("sluice_set_version", "Version of the rule set in force on this node."),
		rules:     gauge("sluice_set_rules", "Active rules in the set in force."),
		overrides: gauge("sluice_overrides", "Overrides loaded on this node, including recently expired ones."),
		swaps: prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_set_swaps_total",
			Help: "Times a new rule set was loaded."}),
		source: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_set_source",
			Help: "1 for the source of the rule set in force (database or copy), else 0."}, []string{"source"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_reload_failures_total",
			Help: "Failed reloads, by what failed: rules (a rule does not compile), overrides, tokens, database."},
			[]string{"what"}),
		copies: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_rule_copies_total",
			Help: "Local copies of the rules or overrides, by outcome (saved, failed, restored, refused)."},
			[]string{"outcome"}),
	}
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_set_age_seconds",
		Help: "Seconds since the rules database last confirmed the rule set in force; -1 before the first confirmation.",
	}, func() float64 {
		at := m.confirmed.Load()
		if at == 0 {
			return -1
		}
		return max(0, now().Sub(time.UnixMilli(at)).Seconds())
	})
	to.MustRegister(m.version, m.rules, m.overrides, m.swaps, m.source, m.failures, m.copies, age)
	m.from("")
	for _, what := range []string{"rules", "tokens", "database"} {
		m.failures.WithLabelValues(what)
	}
	for _, outcome := range []string{"saved", "failed", "restored", "refused"} {
		m.copies.WithLabelValues(outcome)
	}
	return m
}

// swapped records that a set was put in force.
func (m *ruleMetrics) swapped(set *match.Set) {
	m.version.Set(float64(set.Version()))
	m.rules.Set(float64(set.Len()))
	m.swaps.Inc()
}

// from records the source of the set in force: fromDatabase, fromCopy, or "" for none.
func (m *ruleMetrics) from(source string) {
	for _, s := range []string{fromDatabase, fromCopy} {
		m.source.WithLabelValues(s).Set(oneIf(s == source))
	}
}

// copied records the result of a local copy: saved, failed, restored, refused.
func (m *ruleMetrics) copied(outcome string) { m.copies.WithLabelValues(outcome).Inc() }

// oneIf returns the value of a gauge of what is true or not.
func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
