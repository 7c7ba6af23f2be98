package redisstore_test

import (
	"errors"
	"testing"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// The sums of a log have a key of their own. While a slot moves it may be at another server than the log. Sums that
// were begun anew there would end the move (BUSYKEY).
func TestStore_ASlotMovesWhileALogIsUsed(t *testing.T) {
	cluster := testenv.SharedCluster(t)
	s := open(t, client(t, cluster.URL()), redisstore.Options{})
	from, to := cluster.Nodes[0], cluster.Nodes[1]
	e := entityOn(t, cluster, from)
	spent, asks := map[limiter.Key]int64{}, []limiter.Ask{}
	charge := func(a limiter.Ask) error {
		err := s.Do(t.Context(), &limiter.Request{Op: limiter.OpCharge, Asks: []limiter.Ask{a}}, &limiter.Result{})
		if err == nil {
			spent[a.Key]++
		}
		return err
	}
	for n := range 8 {
		a := ask(e, n, limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 1000, Window: month})
		a.Spans = true
		if n%2 == 0 { // the server lists the log and its sums in the other order
			do(t, s, limiter.OpReset, "", a)
		}
		if err := charge(a); err != nil {
			t.Fatal(err)
		}
		asks = append(asks, a)
	}
	odd := ask(e, 100, shop) // a key more, so that some logs move before their sums, or after them
	odd.Spans = true
	do(t, s, limiter.OpCharge, "", odd)
	refused := 0
	moveSlot(t, cluster, slotOf(t, direct(t, from), string(odd.Key)), from, to, func() {
		for _, a := range asks {
			if err := charge(a); err != nil {
				if refused++; causeOf(err) != limiter.CauseCluster {
					t.Error(err)
				}
			}
		}
	})
	if refused == 0 {
		t.Error("no log was apart from its sums: the test tries nothing")
	}
	for _, a := range asks {
		if own := spentOf(t, s, a.Key); own.Taken != spent[a.Key] {
			t.Errorf("%s: %d taken, want %d", a.Key, own.Taken, spent[a.Key])
		}
	}
}

// A reset reads what was heard from other regions, which may be at another server than the bucket.
func TestStore_ASlotMovesWhileBucketsAreReset(t *testing.T) {
	cluster := testenv.SharedCluster(t)
	s := open(t, client(t, cluster.URL()), redisstore.Options{})
	from, to := cluster.Nodes[0], cluster.Nodes[1]
	e := entityOn(t, cluster, from)
	var asks []limiter.Ask
	for n := range 7 {
		a := ask(e, n, limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1000, Window: month})
		a.Spans = true
		do(t, s, limiter.OpCharge, "", a)
		asks = append(asks, a)
	}
	refused := 0
	moveSlot(t, cluster, slotOf(t, direct(t, from), string(asks[0].Key)), from, to, func() {
		for _, a := range asks {
			err := s.Do(t.Context(), &limiter.Request{Op: limiter.OpReset, Asks: []limiter.Ask{a}}, &limiter.Result{})
			if err == nil {
				continue
			}
			if refused++; causeOf(err) != limiter.CauseCluster {
				t.Error(err)
			}
		}
	})
	if refused == 0 {
		t.Error("no bucket was apart from what it has heard: the test tries nothing")
	}
}

// causeOf is the cause of the error of a store.
func causeOf(err error) limiter.Cause {
	var se *limiter.StoreError
	if !errors.As(err, &se) {
		return limiter.CauseInternal
	}
	return se.Cause
}

// What was spent before an edit of the algorithm counts while a slot moves, as long as both buckets are at one server.
func TestStore_ASlotMovesWhileUnitsDo(t *testing.T) {
	cluster := testenv.SharedCluster(t)
	s := open(t, client(t, cluster.URL()), redisstore.Options{})
	from, to := cluster.Nodes[0], cluster.Nodes[1]
	e := entityOn(t, cluster, from)
	former := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1000, Window: month}
	var asks []limiter.Ask
	for n := range 8 {
		old := ask(e, n, former)
		a := ask(e, n, limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 1000, Window: month})
		do(t, s, limiter.OpCharge, "", old)
		do(t, s, limiter.OpCharge, "", a)
		a.Former, a.Weight = &former, 0
		asks = append(asks, a)
	}
	source, together := direct(t, from), 0
	moveSlot(t, cluster, slotOf(t, source, string(asks[0].Key)), from, to, func() {
		for _, a := range asks {
			if source.Exists(t.Context(), "sl:"+string(a.Key), "sl:"+string(a.FormerKey())).Val() != 2 {
				continue
			}
			together++
			if d := do(t, s, limiter.OpTake, "", a).Limits[0]; d.Used != 2 {
				t.Errorf("%s: %d used, want 2", a.Key, d.Used)
			}
		}
	})
	if together == 0 {
		t.Error("no two buckets were at one server: the test tries nothing")
	}
	for _, a := range asks {
		if d := do(t, s, limiter.OpTake, "", a).Limits[0]; d.Used != 2 {
			t.Errorf("%s: %d used in the end, want 2", a.Key, d.Used)
		}
	}
}
