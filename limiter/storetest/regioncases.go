package storetest

import (
	"testing"
	"time"

	"sluice/limiter"
)

// tenInTen is the limit of the worked cases: windows of ten seconds that begin at whole tens.
var tenInTen = limiter.Limit{Algorithm: limiter.FixedWindow, Count: 10, Window: 10_000}

// use gives the regions a new bucket at a time in the middle of a window.
func (r *regions) use(l limiter.Limit) {
	r.clock.Set(1_795_000_005_000)
	r.ask = newEntity().asks(0, l)[0]
}

// remaining checks what a region has left.
func (r *regions) remaining(t *testing.T, at int, want int64) {
	t.Helper()
	if got := r.do(t, at, limiter.OpPeek, "", 0).Limits[0].Remaining; got != want {
		t.Errorf("region %d has %d left, want %d", at, got, want)
	}
}

// only returns the one message of an export.
func (r *regions) only(t *testing.T, at int, lease time.Duration) told {
	t.Helper()
	ms := r.export(t, at, lease)
	if len(ms) != 1 {
		t.Fatalf("%d messages, want 1", len(ms))
	}
	return ms[0]
}

// answer checks an answer of apply.
func answer(t *testing.T, res limiter.Result, allowed, repeated bool) {
	t.Helper()
	if res.Allowed != allowed || res.Replayed != repeated {
		t.Errorf("allowed %v, repeated %v, want %v, %v", res.Allowed, res.Replayed, allowed, repeated)
	}
}

func lateAfterReset(t *testing.T, r *regions) {
	r.use(tenInTen)
	r.do(t, 0, limiter.OpTake, "", 4)
	old := r.only(t, 0, time.Hour)
	answer(t, r.apply(t, 1, old), true, false)
	r.do(t, 1, limiter.OpTake, "", 3)
	r.remaining(t, 1, 3)
	r.do(t, 1, limiter.OpReset, "", 0)
	answer(t, r.apply(t, 1, old), true, true)
	r.remaining(t, 1, 10)
	answer(t, r.apply(t, 0, r.only(t, 1, time.Hour)), true, true)
	r.remaining(t, 0, 10)
	r.do(t, 0, limiter.OpTake, "", 2)
	answer(t, r.apply(t, 1, r.only(t, 0, time.Hour)), true, false)
	answer(t, r.apply(t, 1, old), true, true)
	r.remaining(t, 1, 8)
}

func contradiction(t *testing.T, r *regions) {
	r.use(tenInTen)
	r.do(t, 0, limiter.OpTake, "a", 4)
	r.do(t, 0, limiter.OpRefund, "a", 0)
	m := r.only(t, 0, time.Hour)
	answer(t, r.apply(t, 1, m), true, false)
	m.what.Sums.Taken, m.what.Sums.Given = 9, 2
	m.what.Sums.Windows = []limiter.WindowUnits{{Number: m.what.Sums.Windows[0].Number, Units: 7}}
	answer(t, r.apply(t, 1, m), false, false)
	r.remaining(t, 1, 10)
}

func lostExport(t *testing.T, r *regions) {
	r.use(tenInTen)
	r.do(t, 0, limiter.OpTake, "", 4)
	lost := r.only(t, 0, 0)
	again := r.only(t, 0, time.Hour)
	if again.what.Sums.Taken != lost.what.Sums.Taken {
		t.Errorf("%+v and then %+v", lost, again)
	}
	if ms := r.export(t, 0, time.Hour); len(ms) != 0 {
		t.Errorf("%+v is exported although it is leased", ms)
	}
}

func confirmedExport(t *testing.T, r *regions) {
	r.use(tenInTen)
	r.do(t, 0, limiter.OpTake, "", 4)
	r.export(t, 0, 0)
	r.confirmAll(t)
	if ms := r.export(t, 0, 0); len(ms) != 0 {
		t.Errorf("%+v is exported although it was confirmed", ms)
	}
	r.do(t, 0, limiter.OpTake, "", 1)
	first := r.only(t, 0, 0)
	second := r.only(t, 0, 0)
	r.told[0] = []told{first}
	r.confirmAll(t) // a lease that is over confirms nothing
	if third := r.only(t, 0, time.Hour); third.what.Sums.Taken != 5 || second.what.Lease == first.what.Lease {
		t.Errorf("%+v, want 5 taken", third)
	}
}

func hotExport(t *testing.T, r *regions) {
	r.use(tenInTen)
	for range 5 {
		r.do(t, 0, limiter.OpTake, "", 1)
	}
	if m := r.only(t, 0, time.Hour); m.what.Sums.Taken != 5 {
		t.Errorf("%+v, want 5 taken", m.what.Sums)
	}
	r.do(t, 0, limiter.OpPeek, "", 1)
	r.do(t, 0, limiter.OpTake, "", 11)
	if ms := r.export(t, 0, time.Hour); len(ms) != 0 {
		t.Errorf("%+v is exported although nothing was spent", ms)
	}
}

func lateUnit(t *testing.T, r *regions) {
	for _, c := range []struct {
		limit limiter.Limit
		left  [3]int64 // in the window of the units, 5 s after its end, and 10 s later
	}{
		{tenInTen, [3]int64{4, 10, 10}},
		{limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 10, Window: 10_000}, [3]int64{4, 7, 10}},
		{limiter.Limit{Algorithm: limiter.SlidingWindowBuckets, Count: 10, Window: 10_000, Buckets: 10}, [3]int64{4, 10, 10}},
	} {
		for i, want := range c.left {
			r.use(c.limit)
			if i == 1 && c.limit.Buckets > 0 {
				r.clock.Advance(5000 - 1) // still within a window of its end
				want = 4
			}
			r.do(t, 0, limiter.OpTake, "", 6)
			m := r.only(t, 0, time.Hour)
			r.clock.Set(1_795_000_005_000 + int64(i)*10_000)
			answer(t, r.apply(t, 1, m), true, false)
			r.remaining(t, 1, want)
			r.remaining(t, 0, want)
		}
	}
}

func clockAhead(t *testing.T, r *regions) {
	r.use(tenInTen)
	r.do(t, 1, limiter.OpTake, "", 3)
	r.clock.Advance(5000) // the other region's clock is three seconds ahead
	r.do(t, 0, limiter.OpTake, "", 6)
	m := r.only(t, 0, time.Hour)
	r.clock.Advance(-3000)
	answer(t, r.apply(t, 1, m), true, false)
	r.clock.Advance(4000)
	r.remaining(t, 1, 4)
	// A clock that is further ahead than a window counts at once.
	far := m
	far.from, far.what.Sums.Windows = 7, []limiter.WindowUnits{{Number: m.what.Sums.Windows[0].Number + 5, Units: 2}}
	far.what.Sums.Taken = 2
	answer(t, r.apply(t, 1, far), true, false)
	r.remaining(t, 1, 2)
}

func resetTravels(t *testing.T, r *regions) {
	r.use(tenInTen)
	r.do(t, 0, limiter.OpTake, "", 4)
	r.apply(t, 1, r.only(t, 0, time.Hour))
	r.do(t, 0, limiter.OpReset, "", 0)
	r.remaining(t, 1, 6)
	r.apply(t, 1, r.only(t, 0, time.Hour))
	r.remaining(t, 1, 10)
}

func restartedPeer(t *testing.T, r *regions) {
	r.use(tenInTen)
	r.do(t, 0, limiter.OpTake, "", 4)
	m := r.only(t, 0, time.Hour)
	r.apply(t, 1, m)
	// Its store was emptied: the next incarnation has only what was spent since.
	m.what.Sums.Born++
	m.what.Sums.Taken, m.what.Sums.Windows[0].Units = 2, 2
	answer(t, r.apply(t, 1, m), true, false)
	r.remaining(t, 1, 4)
}
