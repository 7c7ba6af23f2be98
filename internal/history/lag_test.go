package history_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/testenv"
)

// Every node knows how old the newest minute is, also one that does not write.
func TestWriter_SaysHowOldTheNewestMinuteIs(t *testing.T) {
	w := newWorld(t, time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	n, other := w.start(), w.start()
	n.decide("charges", 1, 0)
	n.Post(t.Context())
	w.add(3 * time.Minute)
	if lag := n.writer.Lag(); lag != 0 {
		t.Errorf("before the first round: %v, want 0", lag)
	}
	n.writer.Round(t.Context())
	other.writer.Round(t.Context())
	for _, later := range []time.Duration{0, 5 * time.Minute} {
		w.add(later)
		// The minute of 10:02 is not complete before 10:03:08.
		if a, b := n.writer.Lag(), other.writer.Lag(); a != time.Minute+later || b != a {
			t.Errorf("%v later: %v and %v, want %v", later, a, b, time.Minute+later)
		}
	}
	r := prometheus.NewPedanticRegistry()
	other.writer.Register(r)
	testenv.Served(t, r, "sluice_stats_lag_seconds 360")
}
