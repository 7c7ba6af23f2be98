package usage

import "github.com/prometheus/client_golang/prometheus"

// Register registers the metrics of r.
func (r *Recorder) Register(to prometheus.Registerer) {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	counter := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value)
	}
	to.MustRegister(
		gauge("sluice_usage_noted_keys", "Keys of rules with keep_periods that this node has yet to read for statements.",
			func() float64 { noted, _ := r.notes.size(); return float64(noted) }),
		counter("sluice_usage_dropped_notes_total",
			"Notes beyond the bound of keys, each of which made this node read all keys of rules with keep_periods.",
			func() float64 { _, dropped := r.notes.size(); return float64(dropped) }),
		counter("sluice_usage_read_keys_total", "Keys that this node has read and written to statements.",
			func() float64 { return float64(r.written.Load()) }),
		counter("sluice_usage_whole_readings_total", "Readings of all keys of rules with keep_periods by this node.",
			func() float64 { return float64(r.wholes.Load()) }))
}
