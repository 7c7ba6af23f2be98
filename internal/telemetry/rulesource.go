package telemetry

import "github.com/prometheus/client_golang/prometheus"

// RuleSource publishes the source of the rules in force and the results of local copies.
// It is safe for concurrent use.
type RuleSource struct {
	source  *prometheus.GaugeVec
	refused prometheus.Gauge
	copies  *prometheus.CounterVec

	overrides prometheus.Gauge
}

// The sources of rules, as label values.
const (
	FromDatabase = "database"
	FromCopy     = "copy"
)

// RuleSource registers the series, at first without a source. Call it at most
// once.
func (m *Metrics) RuleSource() *RuleSource {
	r := &RuleSource{
		source: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_set_source",
			Help: "1 for the source of the rule set in force (database or copy), else 0."}, []string{"source"}),
		refused: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_set_refused",
			Help: "1 while the stored rules do not compile and an earlier set stays in force, else 0."}),
		copies: counters("sluice_rule_copies_total",
			"Local copies of the rules or overrides, by outcome (saved, failed, restored, refused).", "outcome"),
	}
	r.overrides = prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_overrides",
		Help: "Overrides loaded on this node, including recently expired ones."})
	m.MustRegister(r.source, r.refused, r.copies, r.overrides)
	r.Source("")
	for _, outcome := range []string{"saved", "failed", "restored", "refused"} {
		r.copies.WithLabelValues(outcome)
	}
	return r
}

// SettingsDiffer publishes how many settings of this node, and its rules database,
// differ from those that are stored beside the counters, -1 if they could not be compared. Call it at most
// once.
func (m *Metrics) SettingsDiffer(count func() int64) {
	m.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_settings_differ",
		Help: "Settings of this node, and its rules database, that differ from those stored beside the counters. Above 0: " +
			"it counts in other buckets. -1: they could not be compared."},
		func() float64 { return float64(count()) }))
}

// Source records the source of the set in force: FromDatabase, FromCopy, or "" for
// none.
func (r *RuleSource) Source(from string) {
	for _, s := range []string{FromDatabase, FromCopy} {
		v := 0.0
		if s == from {
			v = 1
		}
		r.source.WithLabelValues(s).Set(v)
	}
}

// Refused records whether the rules in the database do not compile.
func (r *RuleSource) Refused(yes bool) {
	v := 0.0
	if yes {
		v = 1
	}
	r.refused.Set(v)
}

// Copy records the result of a copy: saved, failed, restored, refused.
func (r *RuleSource) Copy(outcome string) { r.copies.WithLabelValues(outcome).Inc() }

// Overrides records how many overrides are in force.
func (r *RuleSource) Overrides(n int) { r.overrides.Set(float64(n)) }
