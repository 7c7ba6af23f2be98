package storetest

import (
	"fmt"
	"testing"
	"time"

	"sluice/limiter"
)

// Births checks that a refund and a settlement give back only units of the bucket in which they were charged: after a
// reset its key has another bucket, whose units belong to others.
func Births(t *testing.T, h Harness) {
	for _, a := range limiter.Algorithms() {
		if a.Traits().Slots {
			continue
		}
		l := limiter.Limit{Algorithm: a, Count: 10_000, Window: 3_600_000}
		switch a.Traits().Setting {
		case limiter.SettingBurst:
			l.Burst = 10_000
		case limiter.SettingBuckets:
			l.Buckets = 60
		}
		limits := map[string]limiter.Limit{a.String(): l}
		if a.Traits().Setting == limiter.SettingAlign {
			l.Align = limiter.AlignFirstHit
			limits[a.String()+" first_hit"] = l
		}
		for name, l := range limits {
			for _, later := range []int64{0, 1, 60_000} {
				t.Run(fmt.Sprintf("%s/%d ms", name, later), func(t *testing.T) {
					clock := NewClock(1_795_000_000_000)
					r := &recorder{T: t, clock: clock, store: h.New(t, clock.Now)}
					for _, op := range []limiter.Op{limiter.OpSettle, limiter.OpRefund} {
						for _, given := range []int64{0, 4000} {
							for _, back := range []int64{0, -5000} {
								r.who = newEntity()
								r.birth(op, l, later, given, back)
							}
						}
					}
				})
			}
		}
	}
}

// birth charges 4,000 units, gives back some without a name, resets, lets others spend, and then gives back the 4,000
// by their name. back is by how much the clock steps back before the reset, later how much later each step is.
func (r *recorder) birth(op limiter.Op, l limiter.Limit, later, given, back int64) {
	r.Helper()
	what := fmt.Sprintf("%s after %d given back, clock %d", op, given, back)
	reset := func() { do(r.T, r.store, limiter.OpReset, "", r.who.asks(0, l)...) }
	r.take("before", 4000, l)
	r.take("settled", 1000, l)
	r.settle("settled", 2000, l)
	r.clock.Advance(later)
	if given > 0 {
		do(r.T, r.store, limiter.OpRefund, "", r.who.asks(given, l)...)
		r.clock.Advance(later)
	}
	r.clock.Advance(back)
	reset()
	r.take("", 3000, l)
	r.clock.Advance(later)
	r.take("after", 5000, l)
	held := r.remaining(l)
	got := do(r.T, r.store, op, "before", r.who.asks(0, l)...)
	r.is(what, got.Limits[0].Refunded, int64(0))
	r.is("refund of what was settled before", r.refund("settled", l), []int64{0})
	r.is(what+": remaining", r.remaining(l), held)
	r.is("settled up", r.settle("after", 5500, l).Allowed, true)
	r.is("refund of what was charged since", r.refund("after", l), []int64{5000})
	reset()
	reset()
	r.take("again", 7, l)
	r.is("refund after another reset", r.refund("again", l), []int64{7})
	r.clock.Advance(-back)
}

// refundAfterReset: a reset in one region makes void what another one charged before. A refund of that gives back
// nothing of what the other one charged since.
func refundAfterReset(t *testing.T, r *regions) {
	for _, l := range []limiter.Limit{
		tenInTen,
		{Algorithm: limiter.FixedWindow, Count: 10, Window: 10_000, Align: limiter.AlignFirstHit},
		{Algorithm: limiter.SlidingWindowLog, Count: 10, Window: 10_000},
		{Algorithm: limiter.SlidingWindowCounter, Count: 10, Window: 10_000},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 10, Window: 10_000, Buckets: 10},
		{Algorithm: limiter.TokenBucket, Count: 1, Window: 10_000, Burst: 10},
		{Algorithm: limiter.GCRA, Count: 1, Window: 10_000, Burst: 10},
	} {
		r.use(l)
		r.do(t, 0, limiter.OpTake, "before", 4)
		r.do(t, 0, limiter.OpTake, "settled", 2)
		r.clock.Advance(1)
		r.do(t, 1, limiter.OpReset, "", 0)
		answer(t, r.apply(t, 0, r.only(t, 1, time.Hour)), true, true)
		r.remaining(t, 0, 10)
		r.do(t, 0, limiter.OpTake, "", 5)
		r.do(t, 0, limiter.OpTake, "after", 3)
		for id, op := range map[string]limiter.Op{"before": limiter.OpRefund, "settled": limiter.OpSettle} {
			if d := r.do(t, 0, op, id, 0).Limits[0]; d.Refunded != 0 {
				t.Errorf("%s: %s gives back %d units of others", l.Algorithm, op, d.Refunded)
			}
		}
		r.remaining(t, 0, 2)
		if d := r.do(t, 0, limiter.OpRefund, "after", 0).Limits[0]; d.Refunded != 3 {
			t.Errorf("%s: %d given back of what was taken since, want 3", l.Algorithm, d.Refunded)
		}
		r.remaining(t, 0, 5)
	}
}
