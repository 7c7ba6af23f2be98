package fleet_test

import (
	"testing"

	"sluice/internal/fleet"
	"sluice/internal/testenv"
)

func TestReservations_OfNoUnitsEnd(t *testing.T) {
	now := int64(1_000_000)
	l, err := fleet.NewReservations(fleet.ReservationOptions{
		Client: client(t, testenv.SharedRedis(t).URL()), Prefix: "none:",
		Clock: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.1", "b.1"} {
		if err := l.Put(t.Context(), name, 1000, []byte("{}"), map[string]int64{"money": 0}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Settle(t.Context(), "a.1", 1000); err != nil {
		t.Error(err)
	}
	if err := l.Remove(t.Context(), "b.1"); err != nil {
		t.Error(err)
	}
	now += 10_000
	if names, _, err := l.Due(t.Context(), 10); err != nil || len(names) > 0 {
		t.Errorf("%v are due, %v", names, err)
	}
}
