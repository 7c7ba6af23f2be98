package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/limiter"
)

// mostRead is the most entries of a log that a request reads, whatever the key holds.
const mostRead = 2048

// twins sends each request to a store and to the reference, and fails if they answer differently.
type twins struct {
	*testing.T
	clock            *Clock
	store, reference limiter.Store
	key              limiter.Key
	limit            limiter.Limit
	reads            func() int64
}

func (s *twins) do(op limiter.Op, id string, w int64) limiter.Decision {
	s.Helper()
	req := limiter.Request{Op: op, ID: id, Asks: []limiter.Ask{{Key: s.key, Limit: s.limit, Weight: w}}}
	var got, want limiter.Result
	before := s.reads()
	if err := s.store.Do(context.Background(), &req, &got); err != nil {
		s.Fatal(err)
	}
	if n := s.reads() - before; n > mostRead {
		s.Errorf("%s of %d with limit %d reads %d entries", op, w, s.limit.Count, n)
	}
	if err := s.reference.Do(context.Background(), &req, &want); err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Fatalf("%s %q of %d with limit %d and window %d at %d (-want +got):\n%s", op, id, w, s.limit.Count,
			s.limit.Window, s.clock.Now(), diff)
	}
	return got.Limits[0]
}

// LongLogs checks that a request reads a bounded part of a log of 60,000 entries, and answers as the reference does.
// reads returns the number of entries that the store has read.
func LongLogs(t *testing.T, h Harness, reads func() int64) {
	const held, start = 60_000, 1_790_000_000_000
	clock := NewClock(start)
	reference := NewReference(clock.Now)
	s := &twins{T: t, clock: clock, store: h.New(t, clock.Now), reference: reference, reads: reads,
		key:   newEntity().key(0, limiter.SlidingWindowLog),
		limit: limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: held, Window: 2 * held}}
	log := &logModel{}
	reference.buckets[s.key] = log
	req := limiter.Request{Asks: []limiter.Ask{{Key: s.key, Limit: s.limit, Weight: 1}}}
	var res limiter.Result
	for i := int64(1); i <= held; i++ {
		if req.ID = ""; i%500 == 0 {
			req.ID = fmt.Sprint("take-", i)
			reference.records[nameOf(&req)] = &record{at: clock.Now(), given: map[limiter.Key]bool{},
				order: []limiter.Key{s.key},
				spent: map[limiter.Key]charge{s.key: {at: clock.Now(), weight: 1, under: s.limit, of: log}}}
		}
		counted, before := i%97 == 0, int64(0)
		if counted {
			before = reads()
		}
		if err := s.store.Do(context.Background(), &req, &res); err != nil || res.Limits[0].Remaining != held-i {
			t.Fatalf("take %d: %v, %v", i, res, err)
		}
		if counted && reads()-before > mostRead {
			t.Fatalf("take %d reads %d entries", i, reads()-before)
		}
		log.entries = append(log.entries, entry{at: clock.Now(), weight: 1})
		clock.Advance(1)
	}
	every := func() {
		for _, count := range []int64{10, 1000, held / 2, held - 1} {
			s.limit.Count = count
			s.do(limiter.OpTake, "", 1)
			s.do(limiter.OpPeek, "", 1)
			s.do(limiter.OpTake, "", count/2)
		}
	}
	every()
	clock.Set(start + s.limit.Window + held/2)
	every()
	for _, i := range []int{30_500, 31_000, 45_000, 45_500, 59_500, 60_000, 45_000} {
		s.do(limiter.OpRefund, fmt.Sprint("take-", i), 0)
		s.do(limiter.OpTake, "", 20_000)
	}
	s.do(limiter.OpSettle, "take-50000", 0)
	s.do(limiter.OpSettle, "take-50500", 9)
	s.limit.Count = 10
	s.do(limiter.OpCharge, "", 5)
	s.do(limiter.OpRefund, "", 20_000)
	s.limit.Count = held
	s.do(limiter.OpTake, "", 30_000)
	clock.Advance(held / 4)
	every()
	clock.Advance(-4 * held) // the entries lie further ahead than the window
	every()
	clock.Advance(3 * held)
	every()
}

// LogWalks compares logs of some thousand entries with the reference on random requests.
func LogWalks(t *testing.T, h Harness) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			clock := NewClock(1_790_000_000_000)
			s := &twins{T: t, clock: clock, store: h.New(t, clock.Now), reference: NewReference(clock.Now),
				reads: func() int64 { return 0 }, key: newEntity().key(0, limiter.SlidingWindowLog),
				limit: limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 1_000_000, Window: 4000}}
			ids := 0
			name := func(of int) string { return fmt.Sprint("id-", of) }
			spend := func(op limiter.Op, w int64) {
				ids++
				s.do(op, name(ids), w)
			}
			heaviest := []int64{1, 3, 100_000, 3}[seed]
			for range 1500 {
				spend(limiter.OpTake, 1+rnd.Int64N(heaviest))
				clock.Advance(rnd.Int64N(3))
			}
			if seed == 3 {
				spend(limiter.OpCharge, limiter.MaxExact)
				clock.Advance(1)
			}
			for range 300 {
				clock.Advance([]int64{0, 0, 1, 1, 2, 5, 100, -20}[rnd.IntN(8)])
				s.limit.Count = []int64{10, 100, 1000, 2500, 50_000, 1_000_000}[rnd.IntN(6)]
				s.limit.Window = []int64{1500, 3000, 4000, 4000}[rnd.IntN(4)]
				switch w := 1 + rnd.Int64N(heaviest); rnd.IntN(10) {
				case 0:
					spend(limiter.OpCharge, w)
				case 1:
					s.do(limiter.OpPeek, "", s.limit.Count/2)
				case 2, 3:
					s.do(limiter.OpRefund, name(1+rnd.IntN(ids)), 0)
				case 4:
					s.do(limiter.OpSettle, name(1+rnd.IntN(ids)), rnd.Int64N(5))
				case 5:
					s.do(limiter.OpRefund, "", rnd.Int64N(300))
				case 6:
					for i, n := rnd.IntN(ids), rnd.IntN(200); n > 0; n-- { // holes
						s.do(limiter.OpRefund, name(max(1, i-n)), 0)
					}
				default:
					spend(limiter.OpTake, w)
				}
				if rnd.IntN(150) == 0 {
					clock.Advance(5000 - rnd.Int64N(10_000))
				}
			}
		})
	}
}

// CrowdedLogs compares logs above their limit with the reference: what remains, waits and denials are exact at the
// limit in force, and a charge joins a bounded number of entries. reads is as of LongLogs.
func CrowdedLogs(t *testing.T, h Harness, reads func() int64) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			clock := NewClock(1_790_000_000_000)
			s := &twins{T: t, clock: clock, store: h.New(t, clock.Now), reference: NewReference(clock.Now), reads: reads,
				key:   newEntity().key(0, limiter.SlidingWindowLog),
				limit: limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 1000, Window: 60_000}}
			counts := []int64{0, 1, 3, 100, 600, 1000}
			heaviest := []int64{1, 3, 100_000, limiter.MaxExact}[seed]
			for i := range 1200 {
				s.do(limiter.OpCharge, fmt.Sprint("id-", i), 1)
				clock.Advance(1 + rnd.Int64N(9))
			}
			for i := range 250 {
				clock.Advance([]int64{0, 1, 1, 2, 50, 1000, 5000}[rnd.IntN(7)])
				if rnd.IntN(4) == 0 {
					s.limit.Count, s.limit.Burst = counts[rnd.IntN(len(counts))], 0
				}
				if s.limit.Burst = 0; rnd.IntN(4) == 0 {
					s.limit.Burst = s.limit.Count / 2
				}
				switch w := 1 + rnd.Int64N(heaviest); rnd.IntN(8) {
				case 0:
					s.do(limiter.OpTake, "", 1)
				case 1:
					s.do(limiter.OpRefund, fmt.Sprint("id-", rnd.IntN(1200+i)), 0)
				case 2:
					s.do(limiter.OpRefund, "", rnd.Int64N(300))
				default:
					s.do(limiter.OpCharge, fmt.Sprint("id-", 1200+i), w)
				}
				s.do(limiter.OpPeek, "", max(1, s.limit.Count/2))
			}
		})
	}
}

// logAboveItsLimit charges a limit of 3 at 0, 1, 2, 3 and 30 s. At 63 s only the last one counts.
func logAboveItsLimit(r *recorder) {
	three := limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 3, Window: 60_000}
	var at int64
	for _, next := range []int64{0, 1000, 2000, 3000, 30_000} {
		r.clock.Advance(next - at)
		at = next
		do(r.T, r.store, limiter.OpCharge, "", r.who.asks(1, three)...)
	}
	r.clock.Advance(61_999 - at)
	r.is("remaining at 61.999 s", r.remaining(three), []int64{0})
	r.clock.Advance(1)
	r.is("wait for three at 62 s", r.take("", 3, three).Limits[0].RetryAfter, int64(28_000))
	r.clock.Advance(1000)
	r.is("remaining at 63 s", r.remaining(three), []int64{2})
	r.is("a take of two", r.take("", 2, three).Allowed, true)
	r.is("a take of one more", r.take("", 1, three).Allowed, false)
}
