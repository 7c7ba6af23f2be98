package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"sluice/limiter"
)

// LongSlots checks that a request reads a bounded part of a bucket that holds thousands of slots, and answers as the
// reference does. reads returns the number of slots that the store has read.
func LongSlots(t *testing.T, h Harness, reads func() int64) {
	tests := map[string]struct {
		held, each, heavy int64 // so many slots, each of them so long after the one before it, this one of two units
	}{
		"one unit":                 {held: 6000, each: 1},
		"two units":                {held: 6000, each: 1, heavy: 1},
		"two units far apart":      {held: 3000, each: 7_919, heavy: 1},
		"few of two units":         {held: 6000, each: 1, heavy: 1000},
		"all at once":              {held: 4000, heavy: 3},
		"all at once, of one unit": {held: 4000},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			const start = 1_790_000_000_000
			clock := NewClock(start)
			reference := NewReference(clock.Now)
			s := &twins{T: t, clock: clock, store: h.New(t, clock.Now), reference: reference, reads: reads,
				key:   newEntity().key(0, limiter.Concurrency),
				limit: limiter.Limit{Algorithm: limiter.Concurrency, Count: limiter.MaxSlots, Window: 2*test.held*test.each + 1000}}
			slots := &slotModel{}
			reference.buckets[s.key] = slots
			fill(s, slots, test.held, test.each, test.heavy)
			longSlots(s, start, test.held, test.each)
		})
	}
}

// slotName is the id of slot i. Those of one millisecond do not come in the order of their ids.
func slotName(i int64) string { return fmt.Sprint("slot-", i*7919%10_007, "-", i) }

func fill(s *twins, slots *slotModel, held, each, heavy int64) {
	s.Helper()
	req := limiter.Request{Asks: []limiter.Ask{{Key: s.key, Limit: s.limit}}}
	var res limiter.Result
	left := s.limit.Count
	for i := range held {
		w := int64(1)
		if heavy > 0 && i%heavy == heavy-1 {
			w = 2
		}
		left -= w
		req.ID, req.Asks[0].Weight = slotName(i), w
		counted, before := i%97 == 0, int64(0)
		if counted {
			before = s.reads()
		}
		if err := s.store.Do(context.Background(), &req, &res); err != nil || res.Limits[0].Remaining != left {
			s.Fatalf("take %d: %v, %v", i, res, err)
		}
		if counted && s.reads()-before > mostRead {
			s.Fatalf("take %d reads %d slots", i, s.reads()-before)
		}
		slots.entries = append(slots.entries, entry{at: s.clock.Now(), weight: w, id: req.ID})
		s.clock.Advance(each)
	}
}

func longSlots(s *twins, start, held, each int64) {
	s.Helper()
	window, taken := s.limit.Window, 0
	take := func(w int64) {
		taken++
		s.do(limiter.OpTake, fmt.Sprint("more-", taken), w)
	}
	every := func() {
		for _, count := range []int64{10, 300, held / 2, held - 1, held * 3 / 2, limiter.MaxSlots} {
			s.limit.Count = count
			s.do(limiter.OpPeek, "", 1)
			take(1)
			take(2)
			take(count / 2)
		}
		for _, i := range []int64{0, held / 3, held/2 + 100, held - 3} {
			s.do(limiter.OpRenew, slotName(i), 1)
			s.do(limiter.OpTake, slotName(i+1), 2)
			s.do(limiter.OpRelease, slotName(i+1), 1)
			s.do(limiter.OpRelease, "", 1)
			s.do(limiter.OpTake, slotName(i+1), 2)
		}
	}
	every()
	s.clock.Set(start + window + held/2*each)
	every()
	s.limit.Window = 2 * window // slots that a take has dropped stay dropped
	every()
	s.limit.Window = window
	s.clock.Advance(-4 * window) // the slots began further ahead than the window
	every()
	s.clock.Advance(window - 1)
	every()
	s.clock.Advance(3 * window)
	take(2)
	for s.do(limiter.OpRelease, "", 1).Refunded > 0 { // slots that a take has dropped do not hold the time
	}
	s.clock.Advance(-3*window - window/4)
	take(2)
	s.do(limiter.OpPeek, "", 1)
	every()
}

// SlotWalks compares buckets of some hundred slots with the reference on random requests.
func SlotWalks(t *testing.T, h Harness) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			clock := NewClock(1_790_000_000_000)
			s := &twins{T: t, clock: clock, store: h.New(t, clock.Now), reference: NewReference(clock.Now),
				reads: func() int64 { return 0 }, key: newEntity().key(0, limiter.Concurrency),
				limit: limiter.Limit{Algorithm: limiter.Concurrency, Count: limiter.MaxSlots, Window: 4000}}
			ids, heaviest := 0, []int64{1, 2, 3, 90}[seed]
			weight := func() int64 { return 1 + rnd.Int64N(1+rnd.Int64N(heaviest)) }
			take := func() {
				ids++
				s.do(limiter.OpTake, fmt.Sprint("id-", ids), weight())
			}
			name := func() string { return fmt.Sprint("id-", 1+rnd.IntN(ids)) }
			fill := func() {
				for range 400 {
					take()
					clock.Advance(rnd.Int64N(3))
				}
			}
			fill()
			clock.Advance(-10_000) // the slots move to this time, and a take drops the last of them
			for s.do(limiter.OpRelease, "", 1).Remaining < limiter.MaxSlots-40 {
			}
			clock.Advance(4000)
			s.do(limiter.OpTake, "alone", heaviest)
			clock.Advance(4000)
			s.do(limiter.OpPeek, "", 1)
			fill()
			for range 250 {
				clock.Advance([]int64{0, 0, 1, 1, 2, 5, 100, -20}[rnd.IntN(8)])
				s.limit.Count = []int64{10, 200, 600, 1500, limiter.MaxSlots, limiter.MaxSlots}[rnd.IntN(6)]
				s.limit.Window = []int64{1500, 3000, 4000, 4000, 4000}[rnd.IntN(5)]
				switch rnd.IntN(10) {
				case 0:
					s.do(limiter.OpPeek, "", s.limit.Count/2)
				case 1:
					s.do(limiter.OpRelease, name(), 1)
				case 2:
					s.do(limiter.OpRelease, "", 1)
				case 3:
					s.do(limiter.OpRenew, name(), 1)
				case 4:
					s.do(limiter.OpTake, name(), weight())
				case 5:
					for range rnd.IntN(60) {
						take()
					}
				case 6:
					for range rnd.IntN(60) {
						s.do(limiter.OpRelease, "", 1)
					}
				default:
					take()
				}
				if rnd.IntN(60) == 0 {
					clock.Advance(5000 - rnd.Int64N(10_000))
				}
			}
			for range 3000 { // until no slot is left
				if s.do(limiter.OpRelease, "", 1).Refunded == 0 {
					break
				}
			}
			take()
		})
	}
}
