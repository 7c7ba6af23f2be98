package home

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// resultDecided is the result of a call that was decided in the home region of its key.
const resultDecided = "decided"

// CountCalls registers the metrics of calls to other regions, and returns the function that counts one, for
// Options.Observe.
func CountCalls(to prometheus.Registerer, regions []string) func(region, reason string, took time.Duration) {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_region_calls_total",
		Help: "Decisions that this node asked the other region for, because their keys are at home there, by result: " +
			"decided, or why not."}, []string{"region", "result"})
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_region_call_seconds",
		Help:    "Time until the other region had decided a call, or it had failed.",
		Buckets: []float64{.002, .005, .01, .02, .04, .06, .08, .1, .15, .2, .3, .5, 1, 2, 5}}, []string{"region"})
	for _, r := range regions {
		took.WithLabelValues(r)
		for _, result := range append(Reasons(), resultDecided) {
			calls.WithLabelValues(r, result)
		}
	}
	to.MustRegister(calls, took)
	return func(region, reason string, d time.Duration) {
		if reason == "" {
			reason = resultDecided
		}
		calls.WithLabelValues(region, reason).Inc()
		took.WithLabelValues(region).Observe(d.Seconds())
	}
}

// counterOf is a counter that is read at each scrape.
func counterOf(name, help string, labels prometheus.Labels, read func() int64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
		func() float64 { return float64(read()) })
}

// Register registers the metrics of what was given back because another region denied or failed.
func (s *Store) Register(to prometheus.Registerer) {
	const name, help = "sluice_region_give_backs_total",
		"Takes whose requests were denied or failed in another region, by result: done (given back) or lost (given up)."
	to.MustRegister(
		counterOf(name, help, prometheus.Labels{"result": "done"}, func() int64 { return s.Stats().Undone }),
		counterOf(name, help, prometheus.Labels{"result": "lost"}, func() int64 { return s.Stats().Lost }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_region_give_backs_pending",
			Help: "Takes that are still to be given back."}, func() float64 { return float64(s.Stats().Pending) }))
}

// Register registers the metrics of the answers of this node to other regions.
func (r *Receiver) Register(to prometheus.Registerer) {
	const name, help = "sluice_region_answers_total", "Calls of other regions for keys that are at home here, by " +
		"result: decided, failed (the counter store could not) or foreign (no such rule here, or another span or " +
		"algorithm); and invalid messages."
	for result, of := range map[string]func(Answered) int64{
		resultDecided: func(a Answered) int64 { return a.Decided },
		"failed":      func(a Answered) int64 { return a.Failed },
		"foreign":     func(a Answered) int64 { return a.Foreign },
		"invalid":     func(a Answered) int64 { return a.Invalid },
	} {
		to.MustRegister(counterOf(name, help, prometheus.Labels{"result": result},
			func() int64 { return of(r.Answered()) }))
	}
}
