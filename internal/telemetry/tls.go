package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TLS reads the state of a listener with TLS.
type TLS struct {
	Expires       func() time.Time
	Failing       func() bool
	BadHandshakes func() int64
}

// TLS publishes the state of a listener with TLS. Its functions are called at each
// scrape. Call it at most once.
func (m *Metrics) TLS(t TLS) {
	m.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_tls_certificate_expiry_timestamp_seconds",
			Help: "When the TLS certificate in force expires, in seconds since 1970.",
		}, func() float64 { return float64(t.Expires().Unix()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_tls_files_failing",
			Help: "1 while the TLS files are not usable and an earlier certificate stays in force, else 0.",
		}, func() float64 {
			if t.Failing() {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "sluice_tls_handshake_failures_total",
			Help: "Connections that ended before their TLS handshake was complete.",
		}, func() float64 { return float64(t.BadHandshakes()) }))
}
