package telemetry

import "github.com/prometheus/client_golang/prometheus"

// MemoryStore is the source of the figures of the counter store in this process.
type MemoryStore interface {
	// Keys is the number of buckets, Evicted the number of buckets that were evicted
	// because SLUICE_MAX_KEYS was reached.
	Keys() int
	Evicted() uint64
	// RecordBytes is the memory of stored responses. DroppedRecords counts the responses that were dropped before they
	// expired, by reason.
	RecordBytes() int64
	DroppedRecords() (room, key uint64)
}

// MemoryStore publishes the figures of the counter store in this process. Call it
// at most once.
func (m *Metrics) MemoryStore(s MemoryStore) {
	gauge := func(name, help string, value func() float64) {
		m.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	counter := func(name, help string, labels prometheus.Labels, value func() float64) {
		opts := prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}
		m.MustRegister(prometheus.NewCounterFunc(opts, value))
	}
	gauge("sluice_memory_keys", "Buckets held in this process.", func() float64 { return float64(s.Keys()) })
	counter("sluice_memory_evictions_total", "Buckets evicted before they expired because SLUICE_MAX_KEYS was reached.",
		nil,
		func() float64 { return float64(s.Evicted()) })
	gauge("sluice_request_record_bytes", "Memory used by stored responses to requests with a request_id, in this process.",
		func() float64 { return float64(s.RecordBytes()) })
	const dropped = "Stored responses dropped before they expired, by reason: " +
		"room (64 MiB were reached), key (the ids of one key reached an eighth of it)."
	for reason, value := range map[string]func() float64{
		"room": func() float64 { room, _ := s.DroppedRecords(); return float64(room) },
		"key":  func() float64 { _, key := s.DroppedRecords(); return float64(key) },
	} {
		counter("sluice_request_records_dropped_total", dropped, prometheus.Labels{"reason": reason}, value)
	}
}
