package starvation

import "github.com/prometheus/client_golang/prometheus"

// Register registers the metric of m.
func (m *Meter) Register(to prometheus.Registerer) {
	to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_scheduling_delay_seconds",
		Help: "99th percentile, over the last 10 s, of how late this process was run; 0 while it has no checks.",
	}, func() float64 { return m.Delay99().Seconds() }))
}
