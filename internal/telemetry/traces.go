package telemetry

import "github.com/prometheus/client_golang/prometheus"

// traceSpans serves what became of the spans of traces, at each scrape.
type traceSpans func() (exported, dropped int64)

var traceSpansTotal = prometheus.NewDesc("sluice_trace_spans_total",
	"Spans by what became of them: exported (the collector has them) or dropped (too many waited, the export failed, or "+
		"the node stopped).", []string{"result"}, nil)

// Traces publishes what became of the spans of traces. Call it at most once.
func (m *Metrics) Traces(counts func() (exported, dropped int64)) {
	m.registry.MustRegister(traceSpans(counts))
}

// Describe implements prometheus.Collector.
func (t traceSpans) Describe(out chan<- *prometheus.Desc) { out <- traceSpansTotal }

// Collect implements prometheus.Collector.
func (t traceSpans) Collect(out chan<- prometheus.Metric) {
	exported, dropped := t()
	out <- prometheus.MustNewConstMetric(traceSpansTotal, prometheus.CounterValue, float64(exported), "exported")
	out <- prometheus.MustNewConstMetric(traceSpansTotal, prometheus.CounterValue, float64(dropped), "dropped")
}
