package storetest

import (
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
)

// Truths checks properties that need no expected numbers: exact waits, exact
// remaining, no growth without requests, no effect of denials and peeks, and the
// published bound of each algorithm. The clock only moves forward.
func Truths(t *testing.T, h Harness) {
	truths := map[string]func(*rapid.T, *scene){
		"WaitingRetryAfterAdmitsAndLessDoesNot": waitIsExact,
		"RemainingIsTheLargestAdmittedWeight":   remainingIsExact,
		"LevelNeverGrowsWithoutArrivals":        levelNeverGrows,
		"DeniedAndPeekChangeNothing":            denialsAreInvisible,
		"PublishedBoundHolds":                   boundHolds,
	}
	for name, truth := range truths {
		t.Run(name, func(t *testing.T) {
			clock := NewClock(clockMin)
			store := h.New(t, clock.Now)
			rapid.Check(t, func(rt *rapid.T) {
				clock.Set(genOrigin.Draw(rt, "origin"))
				a := rapid.SampledFrom(limiter.Algorithms()).Draw(rt, "algorithm")
				truth(rt, &scene{clock: clock, store: store, who: newEntity(), limit: drawLimit(rt, a)})
			})
		})
	}
}

// scene is one bucket under random traffic.
type scene struct {
	clock *Clock
	store limiter.Store
	who   entity
	limit limiter.Limit
	wait  int64
	n     int
}

// ask runs op with weight w on bucket number i. Every take of a slot has its own id.
func (s *scene) ask(t *rapid.T, op limiter.Op, i int, w int64) limiter.Decision {
	id := ""
	if s.limit.Algorithm.Traits().Slots {
		s.n++
		id = "lease" + string(rune('0'+i)) + string(rune('A'+s.n))
	}
	res := do(t, s.store, op, id, limiter.Ask{Key: s.who.key(i, s.limit.Algorithm), Limit: s.limit, Weight: w})
	return res.Limits[0]
}

// move advances the clock by a random time.
func (s *scene) move(t *rapid.T) { step(s.clock, drawStep(t, s.limit, s.wait, false)) }

// take advances the clock by a random time and takes a random weight.
func (s *scene) take(t *rapid.T) (limiter.Decision, int64) {
	s.move(t)
	w := drawWeight(t, s.limit)
	d := s.ask(t, limiter.OpTake, 0, w)
	s.wait = d.RetryAfter
	return d, w
}

func waitIsExact(t *rapid.T, s *scene) {
	for range rapid.IntRange(1, steps).Draw(t, "steps") {
		d, w := s.take(t)
		switch {
		case d.Allowed && d.RetryAfter != 0:
			t.Fatalf("allowed with retry-after %d", d.RetryAfter)
		case d.Allowed || d.RetryAfter == limiter.Never:
			continue
		case d.RetryAfter < 1:
			t.Fatalf("denied with retry-after %d", d.RetryAfter)
		}
		now := s.clock.Now()
		s.clock.Set(now + d.RetryAfter - 1)
		if s.ask(t, limiter.OpPeek, 0, w).Allowed {
			t.Fatalf("%+v: weight %d was told to wait %d ms and is admitted after one less", s.limit, w, d.RetryAfter)
		}
		s.clock.Set(now + d.RetryAfter)
		if !s.ask(t, limiter.OpPeek, 0, w).Allowed {
			t.Fatalf("%+v: weight %d was told to wait %d ms and is denied then", s.limit, w, d.RetryAfter)
		}
		s.clock.Set(now)
	}
}

func remainingIsExact(t *rapid.T, s *scene) {
	for range rapid.IntRange(1, steps).Draw(t, "steps") {
		s.take(t)
		if rapid.IntRange(0, 7).Draw(t, "charge") == 0 && !s.limit.Algorithm.Traits().Slots {
			s.ask(t, limiter.OpCharge, 0, drawWeight(t, s.limit))
		}
		rest := s.ask(t, limiter.OpPeek, 0, 0).Remaining
		if rest > 0 && !s.ask(t, limiter.OpPeek, 0, rest).Allowed {
			t.Fatalf("%+v: remaining %d is not admitted", s.limit, rest)
		}
		if s.ask(t, limiter.OpPeek, 0, rest+1).Allowed {
			t.Fatalf("%+v: remaining %d, yet %d is admitted", s.limit, rest, rest+1)
		}
	}
}

func levelNeverGrows(t *rapid.T, s *scene) {
	for range rapid.IntRange(1, steps/2).Draw(t, "takes") {
		s.take(t)
	}
	before, at := s.ask(t, limiter.OpPeek, 0, 0), s.clock.Now()
	for range rapid.IntRange(1, steps/2).Draw(t, "looks") {
		s.move(t)
		d, now := s.ask(t, limiter.OpPeek, 0, 0), s.clock.Now()
		if d.Remaining < before.Remaining {
			t.Fatalf("%+v: remaining fell from %d to %d in %d ms without arrivals", s.limit, before.Remaining, d.Remaining,
				now-at)
		}
		if before.Reset != limiter.Never && d.Reset != max(0, before.Reset-(now-at)) {
			t.Fatalf("%+v: reset was %d and is %d after %d ms without arrivals", s.limit, before.Reset, d.Reset, now-at)
		}
		before, at = d, now
	}
}

// denialsAreInvisible repeats on a second bucket only requests that spent something.
func denialsAreInvisible(t *rapid.T, s *scene) {
	for range rapid.IntRange(1, steps).Draw(t, "steps") {
		d, w := s.take(t)
		for range rapid.IntRange(0, 2).Draw(t, "peeks") {
			s.ask(t, limiter.OpPeek, 0, drawWeight(t, s.limit))
		}
		if d.Allowed && w > 0 {
			if got := s.ask(t, limiter.OpTake, 1, w); got != d {
				t.Fatalf("%+v: got %+v beside denials and peeks, %+v without", s.limit, d, got)
			}
		}
		a, b := s.ask(t, limiter.OpPeek, 0, 1), s.ask(t, limiter.OpPeek, 1, 1)
		if a != b {
			t.Fatalf("%+v: denials and peeks changed the bucket: %+v instead of %+v", s.limit, a, b)
		}
	}
}

// boundHolds takes greedily and checks every stretch between two admissions.
func boundHolds(t *rapid.T, s *scene) {
	var admitted []charge
	for range steps {
		d, w := s.take(t)
		if d.Allowed && w > 0 {
			admitted = append(admitted, charge{at: s.clock.Now(), weight: w})
		}
		if rest := d.Remaining; rest > 0 && rapid.Bool().Draw(t, "greedy") {
			if s.ask(t, limiter.OpTake, 0, rest).Allowed {
				admitted = append(admitted, charge{at: s.clock.Now(), weight: rest})
			}
		}
	}
	for i := range admitted {
		var sum int64
		for _, c := range admitted[i:] {
			stretch := c.at - admitted[i].at
			sum += c.weight
			if most := bound(s.limit, stretch); most >= 0 && sum > most {
				t.Fatalf("%+v: admitted %d within %d ms, the bound is %d", s.limit, sum, stretch, most)
			}
		}
	}
}

// bound is the largest number of units from an instant to stretch ms later, both
// included; -1 without a bound.
func bound(l limiter.Limit, stretch int64) int64 {
	if l.Algorithm.Bucketed() {
		drained := over(times(whole(stretch), l.Count), l.Window)
		return l.Burst + floor(drained)
	}
	if stretch >= l.Window {
		return -1
	}
	switch l.Algorithm.Traits().Decay {
	case limiter.DecayEach:
		return l.Count
	case limiter.DecayAtOnce:
		if l.Align == limiter.AlignCalendar {
			return 2 * l.Count
		}
	}
	return max(0, 2*l.Count-1)
}
