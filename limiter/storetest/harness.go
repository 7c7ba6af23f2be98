package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"sluice/limiter"
)

// Harness creates the stores under test. The suite closes nothing: use t.Cleanup.
type Harness struct {
	// New returns a store whose time is clock, in ms; nil means the store's own clock. Every test of the suite uses
	// other keys, so stores may share a backend.
	//
	// The given clock may step in both directions and stand still while real
	// time passes, so a store that also expires state by real time must keep it
	// for at least a minute when a clock was given.
	New func(t *testing.T, clock func() int64) limiter.Store
	// Pair, if set, returns two stores over one backend and its own clock, as two nodes would be. Without Pair the
	// storm runs on one store.
	Pair func(t *testing.T) (a, b limiter.Store)
}

// Model compares the answers to one caller with the expected ones, as subtests of t. It starts no goroutine, so the
// race detector would only make it slow.
func Model(t *testing.T, h Harness) {
	t.Run("Properties", func(t *testing.T) { Properties(t, h) })
	t.Run("Truths", func(t *testing.T) { Truths(t, h) })
	t.Run("LogWalks", func(t *testing.T) { LogWalks(t, h) })
	t.Run("CrowdedLogs", func(t *testing.T) {
		CrowdedLogs(t, h, func() int64 { return 0 })
	})
	t.Run("SlotWalks", func(t *testing.T) { SlotWalks(t, h) })
	t.Run("Looks", func(t *testing.T) { Looks(t, h) })
	t.Run("Records", func(t *testing.T) { Records(t, h) })
	t.Run("Bans", func(t *testing.T) { Bans(t, h) })
	t.Run("Oldest", func(t *testing.T) { Oldest(t, h) })
	t.Run("Settlements", func(t *testing.T) {
		SettlementsAsCharges(t, h)
		Settlements(t, h)
	})
	t.Run("Births", func(t *testing.T) { Births(t, h) })
	t.Run("Kept", func(t *testing.T) { Kept(t, h) })
	t.Run("Tallies", func(t *testing.T) { Tallies(t, h) })
	t.Run("Overcharges", func(t *testing.T) { Overcharges(t, h) })
	t.Run("Formers", func(t *testing.T) { Formers(t, h) })
	t.Run("Errors", func(t *testing.T) { Errors(t, h) })
}

// Clock is a settable time in ms. It is safe for concurrent use.
type Clock struct{ ms atomic.Int64 }

// NewClock returns a clock that stands at ms.
func NewClock(ms int64) *Clock {
	c := &Clock{}
	c.Set(ms)
	return c
}

// Now returns the time; it has the form that stores ask for.
func (c *Clock) Now() int64 { return c.ms.Load() }

// Set moves the clock to ms, in either direction.
func (c *Clock) Set(ms int64) { c.ms.Store(ms) }

// Advance moves the clock by d ms, which may be negative.
func (c *Clock) Advance(d int64) { c.ms.Add(d) }

// entities numbers the entities of this process, so that no two tests share a
// bucket even when they share a backend.
var entities atomic.Int64

// entity is a new name for the keys of one entity.
type entity string

// newEntity returns a name that is unique in this process.
func newEntity() entity { return entity(fmt.Sprintf("storetest:%d", entities.Add(1))) }

// key names the entity's bucket number i under algorithm a.
func (e entity) key(i int, a limiter.Algorithm) limiter.Key {
	return limiter.Key(fmt.Sprintf("{%s}|%d|%s", e, i, a.Kind()))
}

// asks returns an ask of weight w for each limit, on the entity's buckets 0, 1, ...
func (e entity) asks(w int64, limits ...limiter.Limit) []limiter.Ask {
	out := make([]limiter.Ask, len(limits))
	for i, l := range limits {
		out[i] = limiter.Ask{Key: e.key(i, l.Algorithm), Limit: l, Weight: w}
	}
	return out
}

// failer is what testing.T and rapid.T have in common here.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// do runs one request and fails the test on an error.
func do(t failer, s limiter.Store, op limiter.Op, id string, asks ...limiter.Ask) limiter.Result {
	t.Helper()
	var res limiter.Result
	if err := s.Do(context.Background(), &limiter.Request{Op: op, ID: id, Asks: asks}, &res); err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	if len(res.Limits) != len(asks) {
		t.Fatalf("%s: %d decisions for %d limits", op, len(res.Limits), len(asks))
	}
	return res
}
