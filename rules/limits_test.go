package rules

import (
	"testing"
	"time"
)

// Between two changes a check costs no computation: the phase is one object.
func TestSchedule_IsComputedOnceAWindow(t *testing.T) {
	half := int64(50)
	r := Rule{Name: "r", Scope: "user", Limit: 200, WindowMS: 1000, Schedule: &Schedule{Zone: "Europe/Berlin",
		Windows: []ScheduleWindow{{From: "09:00", To: "17:00", Percent: &half}}}}
	r.Normalize()
	p, err := Parse(&r)
	if err != nil {
		t.Fatal(err)
	}
	morning := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC) // 09:00 in Berlin
	first := p.timed.at(morning.UnixMilli())
	for _, d := range []time.Duration{0, time.Hour, 8*time.Hour - time.Millisecond} {
		if p.timed.at(morning.Add(d).UnixMilli()) != first {
			t.Errorf("%s later it was computed again", d)
		}
	}
	if next := p.timed.at(morning.Add(8 * time.Hour).UnixMilli()); next == first || next.own.Count != 200 {
		t.Error("the window did not end")
	}
}
