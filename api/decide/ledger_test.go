package decide

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// nodes is the number of nodes for the ledger of withLedger.
type nodes struct{ n int }

// withLedger starts a server whose local fail mode keeps a ledger.
func withLedger(t *testing.T, nodes *nodes, rs ...rules.Rule) (*fixture, *Ledger) {
	t.Helper()
	var ledger *Ledger
	f := newFixture(t, rs, func(o *CheckerOptions) {
		var err error
		ledger, err = NewLedger(LedgerOptions{Local: o.Local, Nodes: func() int { return nodes.n }, Now: o.Now, MaxDebts: 5})
		if err != nil {
			t.Fatal(err)
		}
		o.Ledger, o.Secrets = ledger, oneSecret{}
	})
	return f, ledger
}

// closes checks that the ledger's figures add up.
func closes(t *testing.T, l *Ledger) LedgerStats {
	t.Helper()
	s := l.Stats()
	if s.Spent != s.Reconciled+s.Expired+s.Doubtful+s.Dropped+s.Pending {
		t.Errorf("the sum does not close: %+v", s)
	}
	return s
}

// reconcileOnce tries once to reconcile everything.
func reconcileOnce(t *testing.T, l *Ledger, store limiter.Store, again []*debt) []*debt {
	t.Helper()
	again = l.reconcileAll(t.Context(), store, again)
	closes(t, l)
	return again
}

const anyone = "42"

func TestLedger_EachNodeEnforcesItsShare(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		if algorithm == limiter.Concurrency {
			continue // see the test of leases
		}
		r := perUser("l", "local", 100)
		r.Algorithm, r.WindowMS = algorithm.String(), 600_000
		f, _ := withLedger(t, &nodes{n: 4}, r)
		f.store.fail(errAway)
		if got := f.admitted(60, anyone); got != 25 {
			t.Errorf("%s: %d admitted by one node of four, want 25", algorithm, got)
		}
		a := f.take()
		la := &a.Limits[0]
		limit, _, _ := la.Decision.InForce(la.Limit.Algorithm)
		if limit != 25 || la.Decision.Remaining != 0 || a.Allowed() {
			t.Errorf("%s: figures %+v", algorithm, a)
		}
	}
}

func TestLedger_OutageBeginsWarm(t *testing.T) {
	f, _ := withLedger(t, &nodes{n: 4}, perUser("l", "local", 100))
	if got := f.admitted(20, anyone); got != 20 {
		t.Fatalf("%d admitted", got)
	}
	f.asks(limiter.OpRefund, Question{Weight: 3})
	f.store.fail(errAway)
	if got := f.admitted(60, anyone); got != 25-17 {
		t.Errorf("%d admitted in the outage, want %d: 17 had been spent here", got, 25-17)
	}
}

func TestLedger_ReplayedAnswersAreMirroredOnce(t *testing.T) {
	f, _ := withLedger(t, &nodes{n: 1}, perUser("l", "local", 10))
	for range 5 {
		f.asks(limiter.OpTake, Question{Weight: 1, RequestID: "r"})
	}
	f.store.fail(errAway)
	if got := f.admitted(20, anyone); got != 9 {
		t.Errorf("%d admitted, want 9", got)
	}
}

func TestLedger_ResetForgetsHereToo(t *testing.T) {
	f, _ := withLedger(t, &nodes{n: 1}, perUser("l", "local", 10))
	f.admitted(10, anyone)
	f.asks(limiter.OpReset, Question{Weight: 1})
	f.store.fail(errAway)
	if got := f.admitted(20, anyone); got != 10 {
		t.Errorf("%d admitted, want 10", got)
	}
}

func TestLedger_LeasesHeldThereCountHere(t *testing.T) {
	r := perUser("l", "local", 3)
	r.Algorithm, r.WindowMS = "concurrency", 600_000
	f, l := withLedger(t, &nodes{n: 1}, r)
	kept, released := f.take(), f.take()
	var a Answer
	if err := f.Lease(t.Context(), limiter.OpRelease, released.Lease, Origin{}, &a); err != nil {
		t.Fatal(err)
	}
	f.store.fail(errAway)
	if got := f.admitted(5, anyone); got != 2 || kept.Lease == "" {
		t.Errorf("%d admitted beside the one that is held, want 2", got)
	}
	if s := closes(t, l); s.Spent != 0 {
		t.Errorf("leases are owed: %+v", s)
	}
}

func TestLedger_LeasesThatASettlementEndedCountNoMore(t *testing.T) {
	r := perUser("l", "local", 3)
	r.Algorithm, r.WindowMS = "concurrency", 600_000
	f, _ := withLedger(t, &nodes{n: 1}, r)
	var a Answer
	for range 2 {
		q := Question{Op: limiter.OpTake, Weight: 1, Descriptor: match.Descriptor{User: anyone}}
		if err := f.Reserve(t.Context(), &q, DefaultReservationLife, &a); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.SettleReservation(t.Context(), &Settlement{Reservation: a.Reservation, Weight: 1}, &a); err != nil {
		t.Fatal(err)
	}
	f.store.fail(errAway)
	if got := f.admitted(5, anyone); got != 2 {
		t.Errorf("%d admitted beside the one that is held, want 2", got)
	}
}

func TestLedger_ChargesWhatWasAdmittedWhenTheStoreIsBack(t *testing.T) {
	f, l := withLedger(t, &nodes{n: 2}, perUser("l", "local", 100))
	f.admitted(10, anyone)
	f.store.fail(errAway)
	f.admitted(30, anyone)
	f.left()
	reconcileOnce(t, l, f.store, nil) // in vain
	if s := closes(t, l); s.Spent != 30 || s.Pending != 30 {
		t.Fatalf("got %+v", s)
	}
	f.store.fail(nil)
	reconcileOnce(t, l, f.store, nil)
	if s := closes(t, l); s.Reconciled != 30 || s.Pending != 0 {
		t.Errorf("got %+v", s)
	}
	if got := f.left(); got != 60 {
		t.Errorf("the store has %d left, want 60", got)
	}
}

func TestLedger_WhatNoLongerCountsIsNotCharged(t *testing.T) {
	for _, tt := range []struct {
		algorithm string
		wait      int64
		charged   int64
	}{
		{"fixed_window", 60_000, 0}, {"fixed_window", 59_000, 30},
		{"token_bucket", 9_000, 15}, {"token_bucket", 60_000, 0},
		{"sliding_window_log", 59_000, 30}, {"sliding_window_log", 60_000, 0},
	} {
		r := perUser("l", "local", 100)
		r.Algorithm, r.WindowMS = tt.algorithm, 60_000
		f, l := withLedger(t, &nodes{n: 1}, r)
		f.store.fail(errAway)
		f.admitted(30, anyone)
		f.now.Add(tt.wait)
		f.store.fail(nil)
		reconcileOnce(t, l, f.store, nil)
		if s := closes(t, l); s.Reconciled != tt.charged || s.Expired != 30-tt.charged {
			t.Errorf("%s after %d ms: %+v, want %d charged", tt.algorithm, tt.wait, s, tt.charged)
		}
	}
}

func TestLedger_DoubtfulTakesAreNotChargedAgain(t *testing.T) {
	f, l := withLedger(t, &nodes{n: 1}, perUser("l", "local", 100))
	f.store.fail(&limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: true, Err: context.DeadlineExceeded})
	f.admitted(7, anyone)
	if s := closes(t, l); s.Doubtful != 7 || s.Pending != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestLedger_RemembersABoundedNumberOfBuckets(t *testing.T) {
	f, l := withLedger(t, &nodes{n: 1}, perUser("l", "local", 100))
	f.store.fail(errAway)
	for i := range 8 {
		f.admitted(2, "u"+strconv.Itoa(i))
	}
	if s := closes(t, l); s.Dropped != 6 || s.Pending != 10 {
		t.Errorf("got %+v, want 3 of 8 buckets dropped", s)
	}
}

// losing applies charges and loses the answers of the first n.
type losing struct {
	limiter.Store
	n int
}

func (s *losing) DoAll(ctx context.Context, calls []limiter.Call) {
	s.Store.DoAll(ctx, calls)
	if s.n--; s.n >= 0 {
		for i := range calls {
			calls[i].Err = &limiter.StoreError{Cause: limiter.CauseConnection, Unknown: true, Err: errors.New("cut")}
		}
	}
}

func TestLedger_LostAnswersChargeOnce(t *testing.T) {
	r := perUser("l", "local", 100)
	r.WindowMS = 600_000
	f, l := withLedger(t, &nodes{n: 1}, r)
	f.store.fail(errAway)
	f.admitted(30, anyone)
	f.store.fail(nil)
	store := &losing{Store: f.store, n: 3}
	var again []*debt
	for range 5 {
		again = reconcileOnce(t, l, store, again)
		f.now.Add(1000)
	}
	if s := closes(t, l); s.Reconciled != 30 || len(again) != 0 {
		t.Errorf("got %+v", s)
	}
	if got := f.left(); got != 70 {
		t.Errorf("the store has %d left, want 70", got)
	}
}

func TestLedger_GivesUpOnWhatStaysInDoubt(t *testing.T) {
	f, l := withLedger(t, &nodes{n: 1}, perUser("l", "local", 100))
	f.store.fail(errAway)
	f.admitted(30, anyone)
	f.store.fail(nil)
	again := reconcileOnce(t, l, &losing{Store: f.store, n: 1 << 30}, nil)
	f.now.Add(reconcileRepeat.Milliseconds())
	again = reconcileOnce(t, l, &losing{Store: f.store, n: 1 << 30}, again)
	if s := closes(t, l); s.Doubtful != 30 || len(again) != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestLedger_SpendingWhileSettlingIsAdded(t *testing.T) {
	f, l := withLedger(t, &nodes{n: 1}, perUser("l", "local", 100))
	f.store.fail(errAway)
	f.admitted(10, anyone)
	taken := l.collect(1)
	f.admitted(5, anyone)
	if again, ok := l.charge(t.Context(), f.store, taken); ok || len(again) != 0 {
		t.Errorf("settled without a store: %v", again)
	}
	f.store.fail(nil)
	reconcileOnce(t, l, f.store, nil)
	if s := closes(t, l); s.Reconciled != 15 {
		t.Errorf("got %+v", s)
	}
}

func TestReconcile_RunsUntilItIsStopped(t *testing.T) {
	f, l := withLedger(t, &nodes{n: 1}, perUser("l", "local", 100))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Reconcile(ctx, f.store)
	}()
	f.store.fail(errAway)
	f.admitted(10, anyone)
	f.store.fail(nil)
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for l.Stats().Reconciled != 10 {
		select {
		case <-limit.C:
			t.Fatalf("never reconciled: %+v", l.Stats())
		case <-tick.C:
		}
	}
	f.store.fail(errAway)
	f.admitted(4, anyone)
	f.store.fail(nil)
	cancel()
	<-done
	if s := closes(t, l); s.Reconciled != 14 {
		t.Errorf("what was admitted last is not charged: %+v", s)
	}
}
