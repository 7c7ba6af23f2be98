package storetest

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
)

// HighWater checks that a store's high-water marks equal limiter.Water, and that none is lower than the units that
// count in a bucket that it covers.
func HighWater(t *testing.T, h Harness) {
	clock := NewClock(1_795_000_000_000)
	store := h.New(t, clock.Now)
	marks, ok := store.(limiter.HighWaterReader)
	if !ok {
		t.Fatalf("%T has no high-water marks", store)
	}
	for _, a := range limiter.Algorithms() {
		if a.Traits().Slots || a.Traits().Internal {
			continue
		}
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { highWater(t, clock, store, marks, a) })
		})
	}
}

func highWater(t *rapid.T, clock *Clock, store limiter.Store, marks limiter.HighWaterReader, a limiter.Algorithm) {
	e := newEntity()
	whole := limiter.Limit{Algorithm: a, Count: rapid.Int64Range(1, 20).Draw(t, "limit"), Window: 1000}
	if a.Bucketed() {
		whole.Burst = rapid.Int64Range(1, 20).Draw(t, "burst")
	}
	if a == limiter.SlidingWindowBuckets {
		whole.Buckets = 10
	}
	mark := &limiter.HighWater{Name: string(e), Margin: 500}
	if d := a.Traits().Decay; d == limiter.DecayEach || d == limiter.DecayDrain {
		mark.Life = 2000 * (whole.Burst + whole.Count)
	}
	var model limiter.Water
	for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
		clock.Advance(rapid.SampledFrom([]int64{0, 0, 1, 100, 700, 5000}).Draw(t, "passes"))
		l := whole
		l.Count = rapid.Int64Range(1, whole.Count).Draw(t, "part")
		op := rapid.SampledFrom([]limiter.Op{limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpCharge, limiter.OpPeek,
			limiter.OpRefund, limiter.OpSettle, limiter.OpReset}).Draw(t, "op")
		id := rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "id")
		if op == limiter.OpSettle && id == "" {
			id = "a"
		}
		var asks []limiter.Ask
		for i := range rapid.IntRange(1, 3).Draw(t, "asks") {
			ask := limiter.Ask{Key: e.key(i, a), Limit: l, Weight: rapid.Int64Range(0, 8).Draw(t, "weight"),
				Look: rapid.IntRange(0, 9).Draw(t, "looks") == 0}
			if i < 2 { // the third is not covered
				ask.HighWater = mark
			}
			asks = append(asks, ask)
		}
		res := do(t, store, op, id, asks...)
		if !res.Replayed {
			for i := range asks {
				model = model.Note(op, &asks[i], &res.Limits[i], res.Allowed, clock.Now())
			}
		}
		all, err := marks.HighWater(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		got, want := all[mark.Name], model.At(clock.Now())
		if got != want {
			t.Fatalf("step %d, %s: the mark is %d, want %d", step, op, got, want)
		}
		wide := whole
		wide.Count, wide.Burst = 1000, 1000*min(1, whole.Burst)
		i := step % 2
		d := do(t, store, limiter.OpPeek, "", limiter.Ask{Key: e.key(i, a), Limit: wide}).Limits[0]
		if level := wide.Capacity() - d.Remaining; level > got && a != limiter.GCRA { // whose level is in time, by the limit
			t.Fatalf("step %d, %s: bucket %d holds %d, and the mark is %d", step, op, i, level, got)
		}
	}
}
