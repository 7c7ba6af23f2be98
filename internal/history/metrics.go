package history

import "github.com/prometheus/client_golang/prometheus"

// Register registers the metric of w.
func (w *Writer) Register(to prometheus.Registerer) {
	to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_stats_lag_seconds",
		Help: "Age of the newest complete minute of statistics in the rules database; 0 before the first.",
	}, func() float64 { return w.Lag().Seconds() }))
}
