package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/api/decide"
	"sluice/limiter"
)

// objectiveTime is how long a check may take to meet the objective.
const objectiveTime = 25 * time.Millisecond

// objective counts checks by whether they met the objective: answered by a limit, not by a fail
// mode, within objectiveTime. These are counters and not a bucket of the histogram, because a
// server that stores native histograms has no bucket that ends there.
type objective struct {
	checks              *prometheus.CounterVec
	met, late, failMode prometheus.Counter
}

func newObjective() objective {
	o := objective{checks: counters("sluice_objective_checks_total",
		"Takes to which an enforced limit applied, by result: met (answered by the limit within 25 ms), late (after that), "+
			"fail_mode (answered by a fail mode).", "result")}
	o.met, o.late = o.checks.WithLabelValues("met"), o.checks.WithLabelValues("late")
	o.failMode = o.checks.WithLabelValues("fail_mode")
	return o
}

func (o *objective) observe(d *decide.Decision) {
	switch {
	case d.Answer.Op != limiter.OpTake || d.Outcome == "":
	case d.Answer.Degraded != "" || d.Answer.Verdict == decide.Unavailable:
		o.failMode.Inc()
	case d.Took > objectiveTime:
		o.late.Inc()
	default:
		o.met.Inc()
	}
}

// StatsLag publishes the age of the newest minute of figures in the rule database. Call it at most
// once.
func (m *Metrics) StatsLag(lag func() time.Duration) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_stats_lag_seconds",
		Help: "Age of the newest complete minute of statistics in the rules database; 0 before the first.",
	}, func() float64 { return lag().Seconds() }))
}
