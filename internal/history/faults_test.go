package history_test

import (
	"testing"
	"time"

	"sluice/internal/history"
	"sluice/internal/history/historytest"
)

// TestStats_AClockAheadOfTheDatabaseLosesNothing of the first minutes of an hour.
func TestStats_AClockAheadOfTheDatabaseLosesNothing(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 58, 0, 0, time.UTC)
	w := newWorld(t, begin)
	w.store = historytest.NewStore(func() time.Time { return w.now().Add(-3 * time.Minute) })
	w.reader = w.readerOf(history.NewOwn(1000, history.NewRecorder()))
	n := w.start()
	for step := range 20 * 12 {
		if step == 25 { // 11:00
			n.decide("charges", 5, 0)
		}
		w.tick(n)
		w.add(5 * time.Second)
	}
	if got := w.minutesOf(w.reader, "charges", begin, 10*time.Minute); got[2] != 5 {
		t.Errorf("%v, want 5 in the first minute of the hour", got)
	}
}
