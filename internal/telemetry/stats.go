package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// StatsLag publishes the age of the newest minute of figures in the rule database. Call it at most
// once.
func (m *Metrics) StatsLag(lag func() time.Duration) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_stats_lag_seconds",
		Help: "Age of the newest complete minute of statistics in the rules database; 0 before the first.",
	}, func() float64 { return lag().Seconds() }))
}
