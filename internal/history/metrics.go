package history

import "github.com/prometheus/client_golang/prometheus"

// Register registers the metric of w.
func (w *Writer) Register(to prometheus.Registerer) {
	to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_stats_lag_seconds",
		Help: "Age of the end of the newest minute whose statistics this node has written to the rules database, or of its " +
			"start.",
	}, func() float64 { return w.Lag().Seconds() }))
}
