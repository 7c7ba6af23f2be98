package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/limiter"
)

// RestoreCases checks worked cases of a region whose store has lost its data.
func RestoreCases(t *testing.T, h RegionHarness) {
	clock := NewClock(1_795_000_000_000)
	for name, test := range map[string]func(*testing.T, *lossy){
		"SumsGoOnFromWhatOthersKnow":      restoredSumsGoOn,
		"OfSeveralAnswersTheMostCounts":   mostCounts,
		"ALaterIncarnationReplaces":       laterIncarnation,
		"AResetSinceMakesItVoid":          restoreAfterReset,
		"AResetElsewhereMakesItVoid":      restoreAfterResetElsewhere,
		"WhatWasNotLostIsNotCountedTwice": nothingWasLost,
		"AnEditOfTheLimitBetween":         restoreAfterEdit,
		"OnlyWhileARestoreIsUnderWay":     restoreIsOver,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, &lossy{regions: regions{clock: clock, told: make([][]told, 3),
				all: []limiter.Exporter{h.New(t, clock.Now), h.New(t, clock.Now), h.New(t, clock.Now)}},
				empty: func() limiter.Exporter { return h.New(t, clock.Now) }})
		})
	}
}

// Restores checks that a region which has lost its store has its units again, once others have sent them.
func Restores(t *testing.T, h RegionHarness) {
	RestoreCases(t, h)
	for _, a := range limiter.Algorithms() {
		if a.Traits().Spans() {
			t.Run("EndAsOneAfterALoss/"+a.String(), func(t *testing.T) { endAsOneAfterALoss(t, h, a) })
		}
	}
}

// lossy holds regions, the first of which loses its store.
type lossy struct {
	regions

	empty func() limiter.Exporter
	n     int
}

// lose gives the first region another store, a little later, and begins to restore it.
func (r *lossy) lose(t failer) {
	t.Helper()
	r.clock.Advance(10)
	r.all[0] = r.empty()
	r.begin(t)
}

// begin begins to restore the first region.
func (r *lossy) begin(t failer) {
	t.Helper()
	r.n++
	if began, err := r.all[0].BeginRestore(context.Background(), fmt.Sprint(r.n)); err != nil || !began {
		t.Fatalf("restore began: %v, %v", began, err)
	}
}

// end ends what begin began.
func (r *lossy) end(t failer) {
	t.Helper()
	if ended, err := r.all[0].EndRestore(context.Background(), fmt.Sprint(r.n)); err != nil || !ended {
		t.Fatalf("restore ended: %v, %v", ended, err)
	}
}

// restore restores sums in the first region.
func (r *lossy) restore(t failer, sums *limiter.Sums) limiter.Result {
	t.Helper()
	var res limiter.Result
	req := limiter.Request{Op: limiter.OpRestore, Asks: []limiter.Ask{r.as(0)}, Sums: sums}
	if err := r.all[0].Do(context.Background(), &req, &res); err != nil {
		t.Fatalf("restore %+v: %v", sums, err)
	}
	return res
}

// recall returns what a region knows of the first one.
func (r *lossy) recall(t failer, at int) (own, received limiter.Sums) {
	t.Helper()
	for cursor := ""; ; {
		known, next, err := r.all[at].Recall(context.Background(), "region 0", cursor)
		if err != nil {
			t.Fatalf("recall: %v", err)
		}
		for _, k := range known {
			if k.Key != r.ask.Key {
				continue
			}
			own = k.Sums
			for _, h := range k.Received {
				received = h.Sums
			}
		}
		if cursor = next; cursor == "" {
			return own, received
		}
	}
}

// restoredSumsGoOn: 4 units are known elsewhere, and 2 were spent since the loss.
func restoredSumsGoOn(t *testing.T, r *lossy) {
	r.use(tenInTen)
	r.do(t, 0, limiter.OpTake, "", 4)
	first := r.only(t, 0, time.Hour)
	r.apply(t, 1, first)
	r.do(t, 1, limiter.OpTake, "", 1)
	r.lose(t)
	r.clock.Advance(1000)
	r.do(t, 0, limiter.OpTake, "", 2)
	r.remaining(t, 0, 8)
	own, received := r.recall(t, 1)
	if own.Taken != 1 || received.Taken != 4 || received.Born != first.what.Sums.Born || len(received.Windows) != 1 {
		t.Fatalf("the other region knows %+v of its own and %+v", own, received)
	}
	answer(t, r.restore(t, &received), true, false)
	r.remaining(t, 0, 4)
	answer(t, r.restore(t, &received), true, true)
	r.remaining(t, 0, 4)
	r.end(t)
	m := r.only(t, 0, time.Hour)
	if m.what.Sums.Taken != 6 || m.what.Sums.Born != received.Born {
		t.Errorf("its sums are %+v, want 6 taken since %d", m.what.Sums, received.Born)
	}
	answer(t, r.apply(t, 1, m), true, false)
	r.remaining(t, 1, 3)
	r.do(t, 0, limiter.OpTake, "", 1)
	r.apply(t, 1, r.only(t, 0, time.Hour))
	r.remaining(t, 1, 2)
}

// mostCounts: one region has received 3 units, another one 5, and the other way round.
func mostCounts(t *testing.T, r *lossy) {
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		r.use(tenInTen)
		r.all[0] = r.empty()
		r.do(t, 0, limiter.OpTake, "", 3)
		early := r.only(t, 0, time.Hour)
		r.apply(t, 1, early)
		r.apply(t, 2, early)
		r.do(t, 0, limiter.OpTake, "", 2)
		r.apply(t, 2, r.only(t, 0, time.Hour))
		r.lose(t)
		r.do(t, 0, limiter.OpTake, "", 1)
		for _, at := range order {
			_, received := r.recall(t, at)
			r.restore(t, &received)
		}
		r.remaining(t, 0, 4)
		r.end(t)
		m := r.only(t, 0, time.Hour)
		for at := 1; at < 3; at++ {
			r.apply(t, at, m)
			r.remaining(t, at, 4)
		}
	}
}

// laterIncarnation: one region has received 3 units of an incarnation, and another one also 2 units of a later
// incarnation.
func laterIncarnation(t *testing.T, r *lossy) {
	for _, earlierFirst := range []bool{true, false} {
		r.use(tenInTen)
		r.all[0] = r.empty()
		r.do(t, 0, limiter.OpTake, "", 3)
		early := r.only(t, 0, time.Hour)
		late := early
		late.what.Sums.Born++
		late.what.Sums.Taken, late.what.Sums.Windows = 2, []limiter.WindowUnits{{Number: early.what.Sums.Windows[0].Number,
			Units: 2}}
		r.apply(t, 1, early)
		r.apply(t, 1, late)
		r.remaining(t, 1, 5)
		r.lose(t)
		r.do(t, 0, limiter.OpTake, "", 1)
		want := int64(7)
		if earlierFirst {
			r.restore(t, &early.what.Sums)
			want = 4
		}
		answer(t, r.restore(t, &late.what.Sums), true, false)
		answer(t, r.restore(t, &early.what.Sums), true, true)
		r.remaining(t, 0, want)
		r.end(t)
		m := r.only(t, 0, time.Hour)
		if m.what.Sums.Taken != 3 || m.what.Sums.Born != late.what.Sums.Born {
			t.Errorf("its sums are %+v, want 3 taken in the later incarnation", m.what.Sums)
		}
		r.apply(t, 1, m)
		r.remaining(t, 1, 4)
	}
}

func restoreAfterReset(t *testing.T, r *lossy) {
	r.use(tenInTen)
	r.do(t, 0, limiter.OpTake, "", 4)
	r.apply(t, 1, r.only(t, 0, time.Hour))
	r.lose(t)
	r.clock.Advance(1000)
	r.do(t, 0, limiter.OpTake, "", 1)
	r.do(t, 0, limiter.OpReset, "", 0)
	r.do(t, 0, limiter.OpTake, "", 2)
	_, received := r.recall(t, 1)
	answer(t, r.restore(t, &received), true, true)
	r.remaining(t, 0, 8)
	r.end(t)
	r.apply(t, 1, r.only(t, 0, time.Hour))
	r.remaining(t, 1, 8)
}

func restoreAfterResetElsewhere(t *testing.T, r *lossy) {
	r.use(tenInTen)
	r.do(t, 0, limiter.OpTake, "", 4)
	first := r.only(t, 0, time.Hour)
	r.apply(t, 1, first)
	r.apply(t, 2, first)
	r.lose(t)
	r.clock.Advance(1000)
	r.do(t, 0, limiter.OpTake, "", 1)
	r.do(t, 1, limiter.OpReset, "", 0)
	_, received := r.recall(t, 2)
	answer(t, r.restore(t, &received), true, false)
	r.remaining(t, 0, 5)
	reset, none := r.recall(t, 1)
	if none.Taken != 0 {
		t.Errorf("after its reset a region knows %+v", none)
	}
	r.apply(t, 0, told{1, limiter.Exported{Sums: reset}})
	r.remaining(t, 0, 10)
	answer(t, r.restore(t, &received), true, true)
	r.remaining(t, 0, 10)
}

// nothingWasLost: the mark alone was lost, as by hand, or the last writes alone.
func nothingWasLost(t *testing.T, r *lossy) {
	r.use(tenInTen)
	r.do(t, 0, limiter.OpTake, "", 4)
	m := r.only(t, 0, time.Hour)
	r.apply(t, 1, m)
	r.do(t, 0, limiter.OpTake, "", 1)
	r.begin(t)
	answer(t, r.restore(t, &m.what.Sums), true, true)
	r.remaining(t, 0, 5)
	later := m.what.Sums
	later.Taken, later.Windows = 7, []limiter.WindowUnits{{Number: later.Windows[0].Number, Units: 7}}
	answer(t, r.restore(t, &later), true, false)
	answer(t, r.restore(t, &m.what.Sums), true, true)
	r.remaining(t, 0, 3)
	r.end(t)
	if m := r.only(t, 0, time.Hour); m.what.Sums.Taken != 7 {
		t.Errorf("its sums are %+v, want 7 taken", m.what.Sums)
	}
}

// restoreAfterEdit: the limit has got another window since. The units count, and the sums start empty, as after each
// edit.
func restoreAfterEdit(t *testing.T, r *lossy) {
	r.use(tenInTen)
	r.do(t, 0, limiter.OpTake, "", 4)
	r.apply(t, 1, r.only(t, 0, time.Hour))
	r.lose(t)
	r.clock.Advance(1000)
	r.ask.Limit.Window = 20_000
	r.do(t, 0, limiter.OpTake, "", 1)
	_, received := r.recall(t, 1)
	answer(t, r.restore(t, &received), true, false)
	answer(t, r.restore(t, &received), true, true)
	r.remaining(t, 0, 5)
	r.end(t)
	m := r.only(t, 0, time.Hour)
	if m.what.Sums.Taken != 1 || m.what.Sums.Born <= received.Born {
		t.Errorf("its sums are %+v, want 1 taken since %d", m.what.Sums, received.Born)
	}
	r.apply(t, 1, m)
	r.remaining(t, 1, 5)
}

func restoreIsOver(t *testing.T, r *lossy) {
	r.use(tenInTen)
	r.do(t, 0, limiter.OpTake, "", 4)
	r.apply(t, 1, r.only(t, 0, time.Hour))
	_, received := r.recall(t, 1)
	r.all[0] = r.empty()
	answer(t, r.restore(t, &received), false, false)
	r.remaining(t, 0, 10)
	r.begin(t)
	older := fmt.Sprint(r.n)
	r.begin(t) // by another node
	if ended, err := r.all[0].EndRestore(context.Background(), "none"); err != nil || ended {
		t.Errorf("a restore that has not begun has ended: %v, %v", ended, err)
	}
	r.end(t)
	if ended, err := r.all[0].EndRestore(context.Background(), older); err != nil || ended {
		t.Errorf("a restore has ended after another one: %v, %v", ended, err)
	}
	answer(t, r.restore(t, &received), false, false)
	r.remaining(t, 0, 10)
	if began, err := r.all[0].BeginRestore(context.Background(), "again"); err != nil || began {
		t.Errorf("a restore began though nothing is lost: %v, %v", began, err)
	}
}

// endAsOneAfterALoss lets regions spend, lets the first one lose its store when the others know what it has spent, lets
// it spend more and restore, and compares with one region that has all units.
func endAsOneAfterALoss(t *testing.T, h RegionHarness, a limiter.Algorithm) {
	clock := NewClock(clockMin)
	all := []limiter.Exporter{h.New(t, clock.Now), h.New(t, clock.Now), h.New(t, clock.Now)}
	spare, one := h.New(t, clock.Now), h.New(t, clock.Now)
	limit := limiter.Limit{Algorithm: a, Count: 20, Window: 3_600_000}
	if a.Bucketed() {
		limit.Burst = 20
	}
	if a.Traits().Setting == limiter.SettingBuckets {
		limit.Buckets = 6
	}
	rapid.Check(t, func(rt *rapid.T) {
		clock.Set(genOrigin.Draw(rt, "origin"))
		r := &lossy{regions: regions{clock: clock, told: make([][]told, 3), all: slices.Clone(all),
			ask: newEntity().asks(0, limit)[0]}, empty: func() limiter.Exporter { return spare }}
		spend := func(at int) {
			w := rapid.Int64Range(1, 3).Draw(rt, "weight")
			if r.do(rt, at, limiter.OpTake, "", w).Allowed {
				ask := r.ask
				ask.Weight = w
				do(rt, one, limiter.OpCharge, "", ask)
			}
		}
		compare := func(when string) {
			r.flush(rt)
			want := do(rt, one, limiter.OpPeek, "", r.ask).Limits[0].Remaining
			for at := range r.all {
				if got := r.do(rt, at, limiter.OpPeek, "", 0).Limits[0].Remaining; got != want {
					rt.Fatalf("%s region %d has %d left, one has %d", when, at, got, want)
				}
			}
		}
		for range rapid.IntRange(0, 6).Draw(rt, "takes") {
			spend(rapid.IntRange(0, 2).Draw(rt, "region"))
			r.some(rt)
		}
		compare("before the loss")
		r.lose(rt)
		since := rapid.IntRange(0, 3).Draw(rt, "takes since")
		for range since {
			spend(0)
		}
		for range rapid.IntRange(1, 2).Draw(rt, "restores") {
			for _, at := range rapid.Permutation([]int{1, 2}).Draw(rt, "order") {
				r.relearn(rt, at)
			}
		}
		compare("after the restore")
		for range rapid.IntRange(0, 4).Draw(rt, "takes after") {
			spend(rapid.IntRange(0, 2).Draw(rt, "region"))
		}
		compare("in the end")
		r.confirmAll(rt)
	})
}

// relearn restores what a region knows.
func (r *lossy) relearn(t failer, at int) {
	t.Helper()
	store, ok := r.all[at].(limiter.SpentReader)
	if !ok {
		t.Fatalf("%T is no limiter.SpentReader", r.all[at])
	}
	spent, err := store.Spent(context.Background(), r.ask.Key)
	if err != nil {
		t.Fatalf("spent: %v", err)
	}
	for _, h := range spent.Received {
		if h.Region == "region 0" {
			r.restore(t, &h.Sums)
		}
	}
	r.apply(t, 0, told{at, limiter.Exported{Sums: spent.Own}})
}
