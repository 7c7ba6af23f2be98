package telemetry_test

import (
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/telemetry"
	"sluice/internal/testenv"
	"sluice/limiter"
)

func TestStarved_CountsLateChecksAmongAll(t *testing.T) {
	m := telemetry.New(telemetry.Build{})
	for i := range 5 {
		m.ObserveDecision(&decide.Decision{Answer: &decide.Answer{Op: limiter.OpTake, Verdict: decide.Allowed},
			Took: time.Duration(i) * time.Millisecond, Starved: i < 2})
	}
	if all, starved := m.Starved(); all != 5 || starved != 2 {
		t.Errorf("%d of %d checks were starved, want 2 of 5", starved, all)
	}
	testenv.Served(t, m, "sluice_starved_total 2")
}
