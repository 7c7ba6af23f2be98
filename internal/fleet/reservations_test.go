package fleet_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"sluice/api/decide"
	"sluice/internal/fleet"
	"sluice/internal/testenv"
)

// change makes changes one by one.
func change(t *testing.T, l *fleet.Reservations, changes ...*decide.ListChange) {
	t.Helper()
	for _, c := range changes {
		if l.Write(t.Context(), []*decide.ListChange{c}); c.Err != nil {
			t.Fatalf("%s: %v", c.Name, c.Err)
		}
	}
}

// reservations is a list of its own whose time stands still.
func reservations(t *testing.T, c redis.UniversalClient, prefix string, now *int64) *fleet.Reservations {
	t.Helper()
	l, err := fleet.NewReservations(fleet.ReservationOptions{Client: c, Prefix: prefix,
		Clock: func() int64 { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestReservations_OfNoUnitsEnd(t *testing.T) {
	now := int64(1_000_000)
	l := reservations(t, client(t, testenv.SharedRedis(t).URL()), "none:", &now)
	for _, name := range []string{"a.1", "b.1"} {
		change(t, l, &decide.ListChange{Name: name, MS: 1000, Body: []byte("{}"), Units: map[string]int64{"money": 0}})
	}
	change(t, l, &decide.ListChange{Op: decide.ListSettle, Name: "a.1", MS: 1000},
		&decide.ListChange{Op: decide.ListRemove, Name: "b.1"})
	now += 10_000
	if due, err := l.Due(t.Context(), 10); err != nil || len(due) > 0 {
		t.Errorf("%v are due, %v", due, err)
	}
}

// A reserve is repeated after a renewal, and a node removes what was due before it.
func TestReservations_KeepALaterVersion(t *testing.T) {
	now := int64(1_000_000)
	l := reservations(t, client(t, testenv.SharedRedis(t).URL()), "versions:", &now)
	put := func(version int64, units int64) {
		t.Helper()
		change(t, l, &decide.ListChange{Name: "a.1", Version: version, MS: 1000, Body: []byte("{}"),
			Units: map[string]int64{"tokens": units}})
	}
	due := func(want int64) {
		t.Helper()
		now += 5000
		if got, err := l.Due(t.Context(), 10); err != nil || len(got) != 1 || got[0].Version != want {
			t.Fatalf("due: %+v, %v, want version %d", got, err, want)
		}
	}
	holds := func(want int64) {
		t.Helper()
		if got, err := l.Units(t.Context()); err != nil || got["tokens"] != want {
			t.Errorf("open are %v, %v, want %d", got, err, want)
		}
	}
	put(0, 10)
	due(0)
	put(1_800_000_000_000, 15)
	put(0, 10)
	holds(15)
	change(t, l, &decide.ListChange{Op: decide.ListRemove, Name: "a.1"})
	holds(15)
	due(1_800_000_000_000)
	change(t, l, &decide.ListChange{Op: decide.ListRemove, Name: "a.1", Version: 1_800_000_000_000})
	holds(0)
	put(0, 10) // the id is used anew
	holds(10)
}

func TestReservations_OfMoreUnitsThanASumHolds(t *testing.T) {
	now := int64(1_000_000)
	l := reservations(t, client(t, testenv.SharedRedis(t).URL()), "huge:", &now)
	var changes []*decide.ListChange
	for i := range 1100 { // in one place of the list
		changes = append(changes, &decide.ListChange{Name: fmt.Sprintf("a.%d", i), MS: 1000, Body: []byte("{}"),
			Units: map[string]int64{"a \"quoted\" rule": 1 << 53, "small": 1}})
	}
	write := func() {
		t.Helper()
		l.Write(t.Context(), changes)
		for _, c := range changes {
			if c.Err != nil {
				t.Fatalf("%s: %v", c.Name, c.Err)
			}
		}
	}
	write()
	if got, err := l.Units(t.Context()); err != nil || got["small"] != 1100 || got["a \"quoted\" rule"] <= 0 {
		t.Errorf("open are %v, %v", got, err)
	}
	for i := range changes {
		changes[i].Op = decide.ListRemove
	}
	write()
	if got, err := l.Units(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("after all ended: %v, %v", got, err)
	}
}

// trips counts round trips.
type trips struct{ n int }

func (*trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.n++
		return next(ctx, cmd)
	}
}

func (h *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.n++
		return next(ctx, cmds)
	}
}

func TestReservations_WritesManyChangesInOneRoundTrip(t *testing.T) {
	now := int64(1_000_000)
	c := client(t, testenv.SharedRedis(t).URL())
	l := reservations(t, c, "many:", &now)
	var counted trips
	c.AddHook(&counted)
	for round := range 2 {
		if round == 0 { // the server does not know the script
			if err := c.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		var changes []*decide.ListChange
		for i := range 150 { // each is open at the end
			name := fmt.Sprintf("g%d-%d.1", round, i)
			put := decide.ListChange{Name: name, MS: 1000, Body: []byte("{}"), Units: map[string]int64{"rule": 2}}
			again := put
			changes = append(changes, &put, &decide.ListChange{Op: decide.ListRemove, Name: name}, &again)
		}
		counted.n = 0
		if l.Write(t.Context(), changes); round == 1 && counted.n != 1 {
			t.Errorf("%d changes took %d round trips", len(changes), counted.n)
		}
		for _, c := range changes {
			if c.Err != nil {
				t.Fatal(c.Err)
			}
		}
		if got, err := l.Units(t.Context()); err != nil || got["rule"] != int64(300*(round+1)) {
			t.Errorf("open are %v, %v", got, err)
		}
	}
}
