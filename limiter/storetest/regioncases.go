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
	number := m.what.Sums.Windows[0].Number
	for _, sums := range []limiter.Sums{{Taken: 3, Given: 1, Denied: 1}, {Taken: 4, Given: 2, Denied: 1}} {
		m.what.Sums.Taken, m.what.Sums.Given, m.what.Sums.Denied = sums.Taken, sums.Given, sums.Denied
		m.what.Sums.Windows = []limiter.WindowUnits{{Number: number, Units: 2}}
		answer(t, r.apply(t, 1, m), false, false)
		r.remaining(t, 1, 10)
	}
}

// lostWrites: the Redis of a region has failed over and lost a refund that it had sent. Units that it takes from then
// on are booked, though it may never give back as much again.
func lostWrites(t *testing.T, r *regions) {
	r.use(tenInTen)
	r.do(t, 0, limiter.OpTake, "a", 4)
	m := r.only(t, 0, time.Hour)
	answer(t, r.apply(t, 1, m), true, false)
	r.do(t, 0, limiter.OpRefund, "a", 0)
	refund := r.only(t, 0, time.Hour)
	answer(t, r.apply(t, 1, refund), true, false)
	r.remaining(t, 1, 10)
	window := m.what.Sums.Windows[0].Number
	m.what.Sums.Taken, m.what.Sums.Windows = 7, []limiter.WindowUnits{{Number: window, Units: 7}}
	answer(t, r.apply(t, 1, m), true, false)
	r.remaining(t, 1, 3)
	answer(t, r.apply(t, 1, refund), false, false) // late
	r.remaining(t, 1, 3)
	r.clock.Advance(10_000)
	m.what.Sums.Taken, m.what.Sums.Windows = 15, []limiter.WindowUnits{{Number: window + 1, Units: 8}}
	answer(t, r.apply(t, 1, m), true, false)
	answer(t, r.apply(t, 1, m), true, true)
	r.remaining(t, 1, 2)
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

// A region opens the window of the first units that it receives, unless a window is open. Received units count in its
// own window until that ends.
func firstHitApart(t *testing.T, r *regions) {
	l := tenInTen
	l.Align = limiter.AlignFirstHit
	r.use(l)
	r.do(t, 0, limiter.OpTake, "", 4)
	r.clock.Advance(300)
	r.apply(t, 1, r.only(t, 0, time.Hour))
	r.remaining(t, 1, 6)
	if d := r.do(t, 1, limiter.OpPeek, "", 0).Limits[0]; d.Reset != 9700 {
		t.Errorf("the window ends in %d ms, want 9700, as that of the other region", d.Reset)
	}
	r.use(l)
	r.do(t, 0, limiter.OpTake, "", 4)
	r.clock.Advance(3000)
	r.do(t, 1, limiter.OpTake, "", 3) // before it has heard
	one, other := r.only(t, 0, time.Hour), r.only(t, 1, time.Hour)
	r.apply(t, 1, one)
	r.apply(t, 0, other)
	r.remaining(t, 0, 3)
	r.remaining(t, 1, 3)
	r.clock.Advance(7000)
	r.remaining(t, 0, 10) // a new window; the window of the other region continues
	r.remaining(t, 1, 3)
	r.clock.Advance(3000)
	r.remaining(t, 1, 10)
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

// resetBooksInOrder checks that a reset books again what each region has spent since, in the order in which it was
// heard, with units of a limit that was edited: the window that these open is not opened a second time.
func resetBooksInOrder(t *testing.T, r *regions) {
	l := tenInTen
	l.Align = limiter.AlignFirstHit
	r.use(l)
	r.do(t, 0, limiter.OpTake, "", 1)
	edited := r.only(t, 0, time.Hour)
	edited.what.Sums.Born += 5000
	present := edited
	edited.from, present.from = 6, 7
	edited.what.Sums.Shape += 1000
	r.clock.Advance(3000)
	r.apply(t, 1, edited)
	r.apply(t, 1, present)
	reset := limiter.Exported{Key: edited.what.Key}
	reset.Sums.Reset, reset.Sums.Born = edited.what.Sums.Born-1000, edited.what.Sums.Born-1000
	r.apply(t, 1, told{from: 8, what: reset})
	if d := r.do(t, 1, limiter.OpPeek, "", 0).Limits[0]; d.Remaining != 8 || d.Reset != 10_000 {
		t.Errorf("%d left for %d ms, want 8 for 10000, since units of the edited limit came first", d.Remaining, d.Reset)
	}
}

// hugeCharge checks that a charge of nearly all that sums can hold does not hide what is spent after it.
func hugeCharge(t *testing.T, r *regions) {
	r.use(tenInTen)
	r.do(t, 0, limiter.OpCharge, "", limiter.MaxExact-2)
	r.only(t, 0, time.Hour)
	r.clock.Advance(10_000)
	for range 6 {
		r.do(t, 0, limiter.OpTake, "", 1)
	}
	answer(t, r.apply(t, 1, r.only(t, 0, time.Hour)), true, false)
	r.remaining(t, 1, 4)
}

// hugeChargeDrains: a bucket that drops units beyond its burst has room again soon after a charge of nearly all that
// sums can hold. Other regions receive units that are spent then.
func hugeChargeDrains(t *testing.T, r *regions) {
	r.use(limiter.Limit{Algorithm: limiter.GCRA, Count: 10, Window: 10_000, Burst: 10})
	r.clock.Advance(10_000 - r.clock.Now()%10_000) // to the beginning of a period
	r.do(t, 0, limiter.OpCharge, "", limiter.MaxExact-1)
	r.tellAll(t, 0, 1, 16, true)
	r.clock.Advance(4000)
	r.do(t, 0, limiter.OpTake, "", 2)
	answer(t, r.apply(t, 1, r.only(t, 0, time.Hour)), true, false)
	r.remaining(t, 1, 2)
}

// hugeSum: a region receives, in one message, a reset and as many units as a store holds. It has more.
func hugeSum(t *testing.T, r *regions) {
	r.use(limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 10, Window: 10_000})
	r.do(t, 0, limiter.OpReset, "", 0)
	r.clock.Advance(1)
	r.do(t, 1, limiter.OpCharge, "", 20)
	r.do(t, 0, limiter.OpCharge, "", limiter.MaxExact)
	answer(t, r.apply(t, 1, r.only(t, 0, time.Hour)), true, false)
	r.remaining(t, 1, 0)
	r.clock.Advance(10_000)
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

// limitTravels: the sums of a bucket that drains say at which limit to count the units: the limit of the last take or
// charge of a whole limit before the bucket was listed.
func limitTravels(t *testing.T, r *regions, a limiter.Algorithm) {
	whole := limiter.Limit{Algorithm: a, Count: 100, Window: 10_000}
	if a.Bucketed() {
		whole.Burst = 100
	}
	if a.Traits().Setting == limiter.SettingBuckets {
		whole.Buckets = 10
	}
	r.use(whole)
	tier, part := whole.Share(2), whole.Share(3)
	for _, c := range []struct {
		op    limiter.Op
		limit limiter.Limit
		guard limiter.GuardMode
		want  limiter.Limit
	}{
		{limiter.OpTake, part, limiter.GuardOff, limiter.Limit{}},
		{limiter.OpTake, whole, limiter.GuardOpen, whole},
		{limiter.OpTake, tier, limiter.GuardShare, tier},
		{limiter.OpTake, tier, limiter.GuardShare, tier},
		{limiter.OpTake, part, limiter.GuardOff, tier},
		{limiter.OpCharge, whole, limiter.GuardOpen, whole},
		{limiter.OpTake, whole, limiter.GuardOpen, whole},
	} {
		r.ask.Limit, r.ask.Guard = c.limit, c.guard
		r.clock.Advance(100)
		r.do(t, 0, c.op, "", 1)
		if a.Traits().Decay != limiter.DecayDrain {
			c.want = limiter.Limit{}
		}
		if got := r.only(t, 0, time.Hour).what.Sums; got.Count != c.want.Count || got.Burst != c.want.Burst {
			t.Errorf("%s of %d: the news is of %d with a burst of %d, want %d and %d", c.op, c.limit.Count, got.Count,
				got.Burst, c.want.Count, c.want.Burst)
		}
	}
}

// guarded runs a take or peek that is held to the region's share.
func (r *regions) guarded(t *testing.T, at int, op limiter.Op, mode limiter.GuardMode, w int64) limiter.Decision {
	t.Helper()
	a := r.as(w)
	a.Guard = mode
	return do(t, r.all[at], op, "", a).Limits[0]
}

// spend takes units one by one until it is denied, and returns how many there were.
func (r *regions) spend(t *testing.T, at int, mode limiter.GuardMode) (units int64) {
	t.Helper()
	for r.guarded(t, at, limiter.OpTake, mode, 1).Allowed {
		units++
	}
	return units
}

// tellAll exports, delivers and confirms, with a guard of so many sixteenths.
func (r *regions) tellAll(t *testing.T, from, to int, sixteenths int64, lead bool) {
	t.Helper()
	m := r.only(t, from, time.Hour)
	r.apply(t, to, m)
	m.what.Guard = limiter.Guard{Share: sixteenths * limiter.FullShare / 16, Lead: lead}
	if err := r.all[from].Confirm(t.Context(), []limiter.Exported{m.what}); err != nil {
		t.Fatal(err)
	}
}

// spanning are limits of a hundred units, one for each way in which units cease to count.
var spanning = []limiter.Limit{
	{Algorithm: limiter.FixedWindow, Count: 100, Window: 10_000},
	{Algorithm: limiter.FixedWindow, Align: limiter.AlignFirstHit, Count: 100, Window: 10_000},
	{Algorithm: limiter.SlidingWindowCounter, Count: 100, Window: 10_000},
	{Algorithm: limiter.SlidingWindowBuckets, Count: 100, Window: 10_000, Buckets: 10},
	{Algorithm: limiter.SlidingWindowLog, Count: 100, Window: 10_000},
	{Algorithm: limiter.TokenBucket, Count: 1, Window: 100_000, Burst: 100},
	{Algorithm: limiter.GCRA, Count: 1, Window: 100_000, Burst: 100},
	{Algorithm: limiter.LeakyBucket, Count: 1, Window: 100_000, Burst: 100},
}

func guardedShare(t *testing.T, r *regions) {
	for _, l := range spanning {
		r.use(l)
		for range 20 {
			r.guarded(t, 0, limiter.OpTake, limiter.GuardOpen, 1)
		}
		r.tellAll(t, 0, 1, 4, false)
		want := limiter.Decision{Limit: 100, Used: 20, RetryAfter: TwoRegions.Wait, Held: true}
		for _, op := range []limiter.Op{limiter.OpPeek, limiter.OpTake} {
			got := r.guarded(t, 0, op, limiter.GuardOpen, 21) // a quarter of 80 is left to this region
			want.Rate, want.Reset, want.Remaining = got.Rate, got.Reset, 20
			if got != want {
				t.Errorf("%s, %s: %+v, want %+v", l.Algorithm, op, got, want)
			}
		}
		if got := r.spend(t, 0, limiter.GuardOpen); got != 20 {
			t.Errorf("%s: %d units, want a quarter of 80", l.Algorithm, got)
		}
		if got := r.guarded(t, 0, limiter.OpTake, limiter.GuardOff, 30); !got.Allowed || got.Remaining != 30 {
			t.Errorf("%s: %+v without a guard", l.Algorithm, got)
		}
		r.tellAll(t, 0, 1, 5, true)
		// 30 are left, and a region that leads rounds up what is its share.
		if got := r.spend(t, 0, limiter.GuardOpen); got != 10 {
			t.Errorf("%s: %d units, want 10 of 30", l.Algorithm, got)
		}
		r.tellAll(t, 0, 1, 16, true)
		if got := r.spend(t, 0, limiter.GuardOpen); got != 20 {
			t.Errorf("%s: %d units, want all 20 that are left", l.Algorithm, got)
		}
		r.remaining(t, 0, 0)
	}
}

func coldShare(t *testing.T, r *regions) {
	for _, l := range spanning {
		r.use(l)
		if d := r.guarded(t, 0, limiter.OpTake, limiter.GuardShare, 51); d.Allowed || !d.Held || d.Remaining != 50 {
			t.Errorf("%s: %+v, want half of 100", l.Algorithm, d)
		}
		if got := r.spend(t, 0, limiter.GuardShare); got != 50 {
			t.Errorf("%s: %d units, want half of 100", l.Algorithm, got)
		}
		if got := r.spend(t, 1, limiter.GuardOpen); got != 100 {
			t.Errorf("%s: %d units, want all with cold open", l.Algorithm, got)
		}
	}
	r.use(limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1, Window: 10_000})
	if got := r.spend(t, 0, limiter.GuardShare); got != 1 {
		t.Errorf("%d units, want at least one", got)
	}
}

func deniedTravels(t *testing.T, r *regions) {
	r.use(tenInTen)
	r.guarded(t, 0, limiter.OpTake, limiter.GuardShare, 6)
	m := r.only(t, 0, time.Hour)
	if m.what.Sums.Denied != 6 || m.what.Sums.Taken != 0 || m.what.Sums.Born == 0 {
		t.Errorf("%+v, want 6 units denied", m.what.Sums)
	}
	answer(t, r.apply(t, 1, m), true, false)
	answer(t, r.apply(t, 1, m), true, true)
	r.do(t, 1, limiter.OpTake, "", 1)
	received := r.only(t, 1, time.Hour).what.Received
	if len(received) != 1 || received[0].Region != "region 0" || received[0].Sums.Denied != 6 {
		t.Errorf("%+v, want what was denied elsewhere", received)
	}
	r.do(t, 0, limiter.OpReset, "", 0)
	r.guarded(t, 0, limiter.OpTake, limiter.GuardShare, 7)
	if m := r.only(t, 0, time.Hour); m.what.Sums.Denied != 7 {
		t.Errorf("%+v, want 7 units denied since the reset", m.what.Sums)
	}
}
