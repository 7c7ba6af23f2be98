package telemetry

import "github.com/prometheus/client_golang/prometheus"

// SecretFile publishes whether the file of a setting with a secret is failing. The function is
// called at each scrape. Call it at most once for a setting.
func (m *Metrics) SecretFile(setting string, failing func() bool) {
	m.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_secret_file_failing",
		Help:        "1 while the file of the setting is not usable and an earlier secret stays in use, else 0.",
		ConstLabels: prometheus.Labels{"setting": setting},
	}, func() float64 {
		if failing() {
			return 1
		}
		return 0
	}))
}
