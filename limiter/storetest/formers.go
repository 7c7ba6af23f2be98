package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
)

// formerLimits are limits of each kind that counts, with windows and counts that differ.
var formerLimits = []limiter.Limit{
	{Algorithm: limiter.FixedWindow, Count: 10, Window: 60_000},
	{Algorithm: limiter.SlidingWindowLog, Count: 7, Window: 50_000},
	{Algorithm: limiter.SlidingWindowCounter, Count: 12, Window: 40_000},
	{Algorithm: limiter.SlidingWindowBuckets, Count: 9, Window: 60_000, Buckets: 6},
	{Algorithm: limiter.TokenBucket, Count: 10, Window: 30_000, Burst: 8},
	{Algorithm: limiter.GCRA, Count: 11, Window: 45_000, Burst: 5},
	{Algorithm: limiter.FixedWindow, Count: 6, Window: 20_000, Align: limiter.AlignFirstHit},
}

// formerStart is a time within a window of each of them.
const formerStart int64 = 1_700_000_005_000

// edited is a bucket that has had its algorithm changed, and one that never had another.
type edited struct {
	store      limiter.Store
	clock      *Clock
	who        entity
	from, to   limiter.Limit
	old, ask   limiter.Ask // before and after the edit
	same       limiter.Ask // a bucket as after the edit, with no former one
	transplant int64       // what is to move
}

func newEdited(t *testing.T, h Harness, from, to limiter.Limit) *edited {
	t.Helper()
	clock := NewClock(formerStart)
	return editedIn(h.New(t, clock.Now), clock, from, to)
}

func editedIn(store limiter.Store, clock *Clock, from, to limiter.Limit) *edited {
	e := &edited{store: store, clock: clock, who: newEntity(), from: from, to: to}
	e.old = limiter.Ask{Key: e.who.key(1, from.Algorithm), Limit: from}
	e.ask = limiter.Ask{Key: e.who.key(1, to.Algorithm), Limit: to, Former: &e.from}
	e.same = limiter.Ask{Key: e.who.key(2, to.Algorithm), Limit: to}
	return e
}

func (e *edited) do(t failer, op limiter.Op, a limiter.Ask, w int64) limiter.Decision {
	t.Helper()
	a.Weight = w
	return do(t, e.store, op, "", a).Limits[0]
}

// spend charges w units under the former algorithm.
func (e *edited) spend(t failer, w int64) {
	t.Helper()
	if w > 0 {
		e.do(t, limiter.OpCharge, e.old, w)
	}
	d := e.do(t, limiter.OpPeek, e.old, 0)
	e.transplant = min(d.Used, d.Limit, e.to.Capacity())
}

// agree makes the operation on the edited bucket and on a bucket that was never edited, and compares the answers.
func (e *edited) agree(t failer, op limiter.Op, w int64) {
	t.Helper()
	got, want := e.do(t, op, e.ask, w), e.do(t, op, e.same, w)
	if got != want {
		t.Fatalf("%s of %d: the edited bucket says %+v, a bucket with the same spent in it says %+v", op, w, got, want)
	}
}

// Formers checks that what was spent under an algorithm of another kind counts under the present one.
func Formers(t *testing.T, h Harness) {
	for _, from := range formerLimits {
		for _, to := range formerLimits {
			if !limiter.Movable(from, to) {
				continue
			}
			for name, spent := range map[string]int64{
				"nothing": 0, "half": from.Capacity() / 2, "all": from.Capacity(), "more": from.Capacity() + 3,
			} {
				t.Run(fmt.Sprintf("%s to %s/%s", from.Algorithm, to.Algorithm, name), func(t *testing.T) {
					moves(t, newEdited(t, h, from, to), spent)
				})
			}
		}
	}
	t.Run("walks", func(t *testing.T) { formerWalks(t, h) })
	t.Run("operations", func(t *testing.T) { formerOperations(t, h) })
	t.Run("back", func(t *testing.T) { formerBack(t, h) })
	t.Run("several", func(t *testing.T) { formerSeveral(t, h) })
	t.Run("refused", func(t *testing.T) { formerRefused(t, h) })
	t.Run("unanswered", func(t *testing.T) { formerUnanswered(t, h) })
}

// moves follows one bucket over an edit.
func moves(t *testing.T, e *edited, spent int64) {
	e.spend(t, spent)
	if want := max(0, e.to.Capacity()-min(spent, e.from.Capacity())); e.do(t, limiter.OpPeek, e.ask, 1).Remaining != want {
		t.Fatalf("the first look after the edit: %+v, want %d remaining", e.do(t, limiter.OpPeek, e.ask, 1), want)
	}
	e.clock.Advance(3)
	// The look moved nothing: it still stands under the former algorithm, and moves at the instant of the decision.
	if d := e.do(t, limiter.OpPeek, e.old, 0); d.Limit-d.Remaining != min(spent, e.from.Capacity()) {
		t.Fatalf("after a look the former bucket says %+v", d)
	}
	e.spend(t, 0)
	if e.transplant > 0 {
		e.do(t, limiter.OpCharge, e.same, e.transplant)
	}
	e.agree(t, limiter.OpPeek, 1)
	e.agree(t, limiter.OpTake, e.to.Capacity()) // denied if any units have moved: they move even so
	if d := e.do(t, limiter.OpPeek, e.old, 0); d.Used != 0 || d.Reset != 0 {
		t.Fatalf("the former bucket is still there: %+v", d)
	}
	for _, wait := range []int64{0, 1, 700, 9_000, 11_000, 20_000, 40_000} {
		e.clock.Advance(wait)
		e.agree(t, limiter.OpPeek, 2)
		e.agree(t, limiter.OpTake, 1)
		e.agree(t, limiter.OpTake, 2)
	}
	// A node that does not know the edit spends under the former algorithm; that moves too.
	e.spend(t, 1)
	e.do(t, limiter.OpCharge, e.same, e.transplant)
	e.agree(t, limiter.OpTake, 1)
	e.clock.Advance(5)
	e.agree(t, limiter.OpCharge, 1)
}

// formerWalks compares random requests after an edit.
func formerWalks(t *testing.T, h Harness) {
	clock := NewClock(formerStart)
	store := h.New(t, clock.Now)
	rapid.Check(t, func(r *rapid.T) {
		from := rapid.SampledFrom(formerLimits).Draw(r, "from")
		to := rapid.SampledFrom(formerLimits).Filter(func(l limiter.Limit) bool {
			return limiter.Movable(from, l)
		}).Draw(r, "to")
		e := editedIn(store, clock, from, to)
		for range rapid.IntRange(0, 4).Draw(r, "charges") {
			e.do(r, limiter.OpCharge, e.old, rapid.Int64Range(1, 6).Draw(r, "units"))
			e.clock.Advance(rapid.Int64Range(0, 15_000).Draw(r, "between"))
		}
		e.spend(r, 0)
		if e.transplant > 0 {
			e.do(r, limiter.OpCharge, e.same, e.transplant)
		}
		for range rapid.IntRange(1, 12).Draw(r, "requests") {
			ops := []limiter.Op{limiter.OpTake, limiter.OpTake, limiter.OpCharge, limiter.OpRefund}
			e.agree(r, rapid.SampledFrom(ops).Draw(r, "op"), rapid.Int64Range(0, 4).Draw(r, "weight"))
			e.clock.Advance(rapid.Int64Range(0, 20_000).Draw(r, "wait"))
		}
	})
}

// formerOperations checks what other operations do between an edit and the first take.
func formerOperations(t *testing.T, h Harness) {
	from, to := formerLimits[0], formerLimits[4]
	t.Run("refund of an earlier charge", func(t *testing.T) {
		e := newEdited(t, h, from, to)
		charged := e.old
		charged.Weight = 4
		do(t, e.store, limiter.OpTake, "before", charged)
		if d := do(t, e.store, limiter.OpRefund, "before", e.ask).Limits[0]; d.Refunded != 0 || d.Used != 4 {
			t.Errorf("got %+v, want nothing refunded", d)
		}
	})
	t.Run("refund without an id", func(t *testing.T) {
		e := newEdited(t, h, from, to)
		e.spend(t, 4)
		if d := e.do(t, limiter.OpRefund, e.ask, 3); d.Refunded != 3 || d.Used != 1 {
			t.Errorf("got %+v, want 3 of 4 refunded", d)
		}
	})
	t.Run("reset", func(t *testing.T) {
		e := newEdited(t, h, from, to)
		e.spend(t, from.Count)
		e.do(t, limiter.OpReset, e.ask, 0)
		if d := e.do(t, limiter.OpTake, e.ask, 1); !d.Allowed || d.Used != 1 {
			t.Errorf("after a reset: %+v", d)
		}
	})
	t.Run("settle", func(t *testing.T) {
		e := newEdited(t, h, from, to)
		e.spend(t, 2)
		taken := e.ask
		taken.Weight = 5
		do(t, e.store, limiter.OpTake, "after", taken)
		taken.Weight = 1
		if d := do(t, e.store, limiter.OpSettle, "after", taken).Limits[0]; d.Refunded != 4 || d.Used != 3 {
			t.Errorf("got %+v, want 2 that moved and 1", d)
		}
	})
}

// formerBack checks that a charge from before two edits, the second of which restores the former algorithm, gives back
// none of the units that others have spent since.
func formerBack(t *testing.T, h Harness) {
	for _, from := range formerLimits {
		for _, to := range formerLimits {
			if !limiter.Movable(from, to) {
				continue
			}
			for _, op := range []limiter.Op{limiter.OpRefund, limiter.OpSettle} {
				t.Run(fmt.Sprintf("%s over %s/%s", from.Algorithm, to.Algorithm, op), func(t *testing.T) {
					e := newEdited(t, h, from, to)
					charged := e.old
					charged.Weight = 3
					do(t, e.store, limiter.OpTake, "before", charged)
					e.do(t, limiter.OpTake, e.ask, 1)
					e.do(t, limiter.OpReset, e.ask, 0)
					again := limiter.Ask{Key: e.old.Key, Limit: from, Former: &e.to, Weight: 3}
					do(t, e.store, limiter.OpTake, "since", again)
					again.Weight = 0
					if d := do(t, e.store, op, "before", again).Limits[0]; d.Refunded != 0 || d.Used != 3 {
						t.Errorf("%d given back, %d used: 3 units of others", d.Refunded, d.Used)
					}
					if d := do(t, e.store, op, "since", again).Limits[0]; d.Refunded != 3 {
						t.Errorf("%d given back of what was taken since, want 3", d.Refunded)
					}
				})
			}
		}
	}
}

// formerSeveral checks a request with several limits, some of them edited, in a batch.
func formerSeveral(t *testing.T, h Harness) {
	e := newEdited(t, h, formerLimits[1], formerLimits[3])
	e.spend(t, 5)
	plain := limiter.Ask{Key: e.who.key(3, limiter.GCRA), Limit: formerLimits[5], Weight: 1}
	ask := e.ask
	ask.Weight = 1
	calls := []limiter.Call{
		{Request: limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{plain, ask}}},
		{Request: limiter.Request{Asks: []limiter.Ask{plain}}},
		{Request: limiter.Request{Asks: []limiter.Ask{plain, ask}}},
		{Request: limiter.Request{Asks: []limiter.Ask{plain, ask}}},
		{Request: limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{ask, plain}}},
	}
	e.store.DoAll(t.Context(), calls)
	want := [][]int64{{5, 4}, {4}, {3, 3}, {2, 2}, {2, 2}}
	for i := range calls {
		if calls[i].Err != nil || len(calls[i].Result.Limits) != len(want[i]) {
			t.Fatalf("call %d: %+v, %v", i, calls[i].Result, calls[i].Err)
		}
		for k, d := range calls[i].Result.Limits {
			if d.Remaining != want[i][k] || !d.Allowed {
				t.Errorf("call %d, limit %d: %+v, want %d remaining", i, k, d, want[i][k])
			}
		}
	}
}

// formerRefused checks that a request whose former limit cannot move is malformed.
func formerRefused(t *testing.T, h Harness) {
	slots := limiter.Limit{Algorithm: limiter.Concurrency, Count: 3, Window: 1000}
	for name, pair := range map[string][2]limiter.Limit{
		"from concurrency": {slots, formerLimits[0]},
		"the same kind":    {formerLimits[4], {Algorithm: limiter.LeakyBucket, Count: 3, Window: 1000, Burst: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEdited(t, h, pair[0], pair[1])
			var res limiter.Result
			err := e.store.Do(t.Context(), &limiter.Request{Asks: []limiter.Ask{e.ask}}, &res)
			if !errors.Is(err, limiter.ErrInvalid) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// formerUnanswered checks that a failed look leaves its result unchanged.
func formerUnanswered(t *testing.T, h Harness) {
	a, b := newEdited(t, h, formerLimits[0], formerLimits[4]), newEdited(t, h, formerLimits[1], formerLimits[5])
	b.ask.Key = a.who.key(3, b.to.Algorithm) // in the same slot of a cluster
	req := limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{a.ask, b.ask}}
	gone, leave := context.WithCancel(t.Context())
	leave()
	for n := range 5 {
		res := limiter.Result{Limits: make([]limiter.Decision, n)}
		if err := a.store.Do(gone, &req, &res); err == nil || len(res.Limits) != n {
			t.Errorf("with %d decisions of an earlier request: %v, then %d", n, err, len(res.Limits))
		}
	}
}
