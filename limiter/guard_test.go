package limiter

import "testing"

// A guard is for the sums that the others have: it is not set on those of another incarnation, or without a share.
func TestTold_SetsTheGuardOfItsIncarnation(t *testing.T) {
	windows := []WindowUnits{{Number: 7, Units: 4}}
	exported := func(born, share int64) *Exported {
		return &Exported{Sums: Sums{Born: born, Taken: 4, Windows: windows}, Guard: Guard{Share: share, Lead: true}}
	}
	for name, c := range map[string]struct {
		told *Exported
		want Guard
	}{
		"of its own":             {exported(5, 9), Guard{Share: 9, Lead: true, Told: 4}},
		"of another incarnation": {exported(3, 9), Guard{Share: 2, Told: 1}},
		"without a share":        {exported(5, 0), Guard{Share: 2, Told: 1}},
	} {
		m := Sums{Born: 5, Taken: 6, Windows: []WindowUnits{{Number: 7, Units: 6}}, Guard: Guard{Share: 2, Told: 1}}
		if m.Told(c.told); m.Guard != c.want {
			t.Errorf("%s: %+v, want %+v", name, m.Guard, c.want)
		}
	}
	m := Sums{Born: 5, Taken: 6, Windows: []WindowUnits{{Number: 8, Units: 2}}, Guard: Guard{Told: 1}}
	if m.Told(exported(5, 9)); m.Guard.Told != 1 {
		t.Errorf("units of a window that is over count as told: %+v", m.Guard)
	}
}
