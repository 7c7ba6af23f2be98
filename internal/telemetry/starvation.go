package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Starvation publishes how late this process is run, and how many checks that made late. Call it at most once.
func (m *Metrics) Starvation(delay99 func() time.Duration) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_scheduling_delay_seconds",
			Help: "99th percentile, over the last 10 s, of how late this process was run; 0 while it has no checks.",
		}, func() float64 { return delay99().Seconds() }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "sluice_starved_total",
			Help: "Checks during which this node lacked CPU for longer than the store timeout, so that they were late.",
		}, func() float64 { return float64(m.starved.Load()) }),
	)
}

// Starved returns the number of operations since the start, and how many of them sluice_starved_total counts.
func (m *Metrics) Starved() (operations, starved int64) {
	for _, s := range m.checks.times.all() {
		var now durations
		now.add(s.of)
		all, _ := now.count(objectiveTime)
		operations += all
	}
	return operations, m.starved.Load()
}
