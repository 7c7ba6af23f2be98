package traces

import "github.com/prometheus/client_golang/prometheus"

// Register registers the metric of t.
func (t *Traces) Register(to prometheus.Registerer) {
	for result, of := range map[string]func(Counts) int64{
		"exported": func(c Counts) int64 { return c.Exported },
		"dropped":  func(c Counts) int64 { return c.Dropped },
	} {
		to.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "sluice_trace_spans_total",
			Help: "Spans by what became of them: exported (the collector has them) or dropped (too many waited, the export " +
				"failed, or the node stopped).",
			ConstLabels: prometheus.Labels{"result": result}}, func() float64 { return float64(of(t.Counts())) }))
	}
}
