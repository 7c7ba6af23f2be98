package api

import (
	"testing"

	"sluice/rules"
)

// A meter denies nothing, also when its bucket has as many units as it can count.
func TestMeter_DeniesNothingWhenItIsFull(t *testing.T) {
	meter := rules.Rule{Name: "meter", Scope: "user", Algorithm: "fixed_window", Unlimited: true, WindowMS: 3_600_000,
		WeightField: new("cost"), IsActive: true}
	reserving(t, nil, []rules.Rule{meter, aMinute("limit", 4)}, func(t *testing.T, f *fixture) {
		for i, step := range []struct {
			cost    string
			allowed bool
		}{
			{"9007199254740990", true}, {"5", true}, {"9007199254740991", true}, {"1", true}, {"1", false},
		} {
			a := f.check(`{"user":"42","fields":{"cost":` + step.cost + `}}`)
			if a.Allowed != step.allowed || a.Allowed && *a.Remaining != int64(3-i) || !a.Allowed && *a.Rule != "limit" {
				t.Errorf("request %d: %+v", i, a)
			}
		}
		r := f.reserve(`{"user":"7","fields":{"cost":9007199254740991}}`)
		if again := f.reserve(`{"user":"7","fields":{"cost":9}}`); !r.Allowed || !again.Allowed {
			t.Errorf("reserved: %+v, %+v", r, again)
		}
	})
}
