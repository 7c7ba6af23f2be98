package storetest

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
)

const (
	hour = 3_600_000
	// periodStart is the start of a day, ms.
	periodStart int64 = 1_700_006_400_000
)

// keptDay is a limit of ten units a day whose periods are kept.
var keptDay = limiter.Limit{Algorithm: limiter.FixedWindow, Count: 10, Window: 24 * hour, PerPeriod: true}

// of returns an ask of a limit that is kept, in the period of an instant.
func (e entity) of(l limiter.Limit, at, w int64) limiter.Ask {
	l = l.At(at)
	key := e.key(3, l.Algorithm)
	if l.PerPeriod {
		key = limiter.Key(limiter.AppendPeriod([]byte(key), l))
	}
	return limiter.Ask{Key: key, Limit: l, Weight: w}
}

// Periods checks limits whose periods are kept (limiter.Limit.PerPeriod).
func Periods(t *testing.T, h Harness) {
	t.Run("LikeOthers", func(t *testing.T) { periodsLikeOthers(t, h) })
	t.Run("AfterTheEnd", func(t *testing.T) { periodsAfterTheEnd(t, h) })
	t.Run("Edits", func(t *testing.T) { periodsEdits(t, h) })
}

// periodsLikeOthers compares the decisions of a limit that keeps periods with the decisions of the same limit that does
// not, as long as nothing is settled across a boundary.
func periodsLikeOthers(t *testing.T, h Harness) {
	rapid.Check(t, func(rt *rapid.T) {
		clock := NewClock(periodStart + rapid.Int64Range(0, 24*hour-1).Draw(rt, "begin"))
		s, kept, plain := h.New(t, clock.Now), newEntity(), newEntity()
		other := keptDay
		other.PerPeriod = false
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			clock.Advance(rapid.Int64Range(0, 9*hour).Draw(rt, "later"))
			op := rapid.SampledFrom([]limiter.Op{limiter.OpTake, limiter.OpTake, limiter.OpPeek, limiter.OpCharge,
				limiter.OpRefund, limiter.OpReset}).Draw(rt, "op")
			w := rapid.Int64Range(0, 11).Draw(rt, "weight")
			got := do(rt, s, op, "", kept.of(keptDay, clock.Now(), w)).Limits[0]
			want := do(rt, s, op, "", plain.of(other, clock.Now(), w)).Limits[0]
			if got != want {
				rt.Fatalf("%s of %d at %d: %+v, of a limit that is not kept %+v", op, w, clock.Now()-periodStart, got, want)
			}
		}
	})
}

func periodsAfterTheEnd(t *testing.T, h Harness) {
	const end = periodStart + 24*hour
	used := func(t *testing.T, s limiter.Store, a limiter.Ask, want int64) {
		t.Helper()
		a.Weight = 0
		if got := do(t, s, limiter.OpPeek, "", a).Limits[0].Used; got != want {
			t.Errorf("used %d, want %d", got, want)
		}
	}
	t.Run("a settlement counts in the period of its request", func(t *testing.T) {
		clock := NewClock(end - 1000)
		s, who := h.New(t, clock.Now), newEntity()
		before := who.of(keptDay, clock.Now(), 4)
		reserve(t, s, "more", before)
		reserve(t, s, "less", before)
		clock.Set(end + 1000)
		after := who.of(keptDay, clock.Now(), 1)
		if do(t, s, limiter.OpTake, "", after); before.Key == after.Key {
			t.Fatalf("both periods have the key %s", after.Key)
		}
		before.Weight = 7
		do(t, s, limiter.OpSettle, "more", before)
		before.Weight = 1
		do(t, s, limiter.OpSettle, "less", before)
		used(t, s, before, 8)
		used(t, s, after, 1)
		clock.Set(end + limiter.PeriodKept - 1)
		used(t, s, before, 8)
		clock.Set(end + limiter.PeriodKept)
		used(t, s, before, 0)
	})
	t.Run("the clock of the store is behind", func(t *testing.T) {
		clock := NewClock(periodStart - hour)
		s, who := h.New(t, clock.Now), newEntity()
		first := who.of(keptDay, periodStart, 10)
		do(t, s, limiter.OpTake, "", first)
		clock.Set(periodStart + 1)
		used(t, s, first, 10)
		first.Weight = 1
		if d := do(t, s, limiter.OpTake, "", first).Limits[0]; d.Allowed || d.RetryAfter != 24*hour-1 {
			t.Errorf("%+v, want a denial until the end of the period", d)
		}
	})
	t.Run("the clock of the store is ahead", func(t *testing.T) {
		clock := NewClock(end + 5)
		s, who := h.New(t, clock.Now), newEntity()
		late := who.of(keptDay, end-1, 11)
		late.Weight = 10
		do(t, s, limiter.OpTake, "", late)
		if d := do(t, s, limiter.OpTake, "", late).Limits[0]; d.Allowed || d.RetryAfter != 1 {
			t.Errorf("%+v, want a denial for a moment", d)
		}
	})
}

// reserve takes units under an id and keeps the record for an hour.
func reserve(t failer, s limiter.Store, id string, a limiter.Ask) {
	t.Helper()
	req := limiter.Request{Op: limiter.OpTake, ID: id, Keep: hour, Asks: []limiter.Ask{a}}
	var res limiter.Result
	if err := s.Do(context.Background(), &req, &res); err != nil || !res.Allowed {
		t.Fatalf("%+v, %v", res, err)
	}
}

// periodsEdits moves what was spent when a rule begins or ceases to keep its periods.
func periodsEdits(t *testing.T, h Harness) {
	now := periodStart + hour
	plain := keptDay
	plain.PerPeriod = false
	counter := limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 20, Window: 24 * hour}
	for _, tt := range []struct {
		name     string
		from, to limiter.Limit
	}{{"begins", plain, keptDay}, {"ceases", keptDay, plain}, {"slides", keptDay, counter}} {
		t.Run(tt.name, func(t *testing.T) {
			clock := NewClock(now)
			s, who := h.New(t, clock.Now), newEntity()
			do(t, s, limiter.OpTake, "", who.of(tt.from, now, 3))
			ask, former := who.of(tt.to, now, 2), tt.from.At(now)
			ask.Former = &former
			if ask.FormerKey() != who.of(tt.from, now, 0).Key {
				t.Fatalf("the former key is %s", ask.FormerKey())
			}
			if d := do(t, s, limiter.OpTake, "", ask).Limits[0]; d.Used != 5 {
				t.Errorf("used %d, want 5", d.Used)
			}
		})
	}
}
