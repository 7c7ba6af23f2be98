package records

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/testenv"
)

// waitsSince is a sink whose oldest event is of that time.
type waitsSince struct {
	Sink
	at time.Time
}

func (s waitsSince) Oldest() time.Time { return s.at }

func TestMetrics_OfSinksDoNotMix(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	for sink, n := range map[string]int64{"file": 10, "kafka": 100} {
		a := &Account{}
		a.produced.Add(5 * n)
		a.Deliver(int(n))
		a.Drop(RingFull, int(n)+1)
		a.Doubt(int(n) + 2)
		a.folded.Add(n + 3)
		at := time.Unix(n, 0)
		l := &Log{buffer: &buffer{}, opt: Options{Account: a, Sink: waitsSince{at: time.Unix(0, 0)},
			Now: func() time.Time { return at }}}
		l.Register(r, sink)
	}
	testenv.Served(t, r, `sluice_decision_log_produced_total{sink="file"} 50`,
		`sluice_decision_log_produced_total{sink="kafka"} 500`, `sluice_decision_log_delivered_total{sink="file"} 10`,
		`sluice_decision_log_dropped_total{reason="ring_full",sink="file"} 11`,
		`sluice_decision_log_dropped_total{reason="shutdown",sink="kafka"} 0`,
		`sluice_decision_log_doubtful_total{sink="file"} 12`, `sluice_decision_log_folded_total{sink="kafka"} 103`,
		`sluice_decision_log_buffered{sink="file"} 17`, `sluice_decision_log_oldest_seconds{sink="kafka"} 100`)
}
