package decide

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// openFixture is a fixture with a list of open reservations in memory. gaveUp counts what is given up.
func openFixture(t *testing.T, gaveUp *int) *fixture {
	t.Helper()
	rule := perUser("tokens", "closed", math.MaxInt32)
	rule.WindowMS = 86_400_000
	return newFixture(t, []rules.Rule{rule}, func(o *CheckerOptions) {
		o.Secrets = oneSecret{}
		o.Open = NewOpenReservations(NewReservationList(o.Now), func(n int, err error) {
			if err != nil {
				*gaveUp += n
			}
		})
	})
}

// reserves reserves 10 units each for some users, which come back if nobody settles them.
func (f *fixture) reserves(users int) {
	f.t.Helper()
	for i := range users {
		var a Answer
		q := Question{Op: limiter.OpTake, Weight: 10, Returns: 100, Descriptor: match.Descriptor{User: fmt.Sprint(i)}}
		if err := f.Reserve(f.t.Context(), &q, 60_000, &a); err != nil || a.Returns != 100 {
			f.t.Fatalf("reserve %d: %v, %d percent come back", i, err, a.Returns)
		}
	}
}

// heldStore is a store whose calls wait for a signal.
type heldStore struct {
	limiter.Store
	waiting atomic.Int64
	release chan struct{}
}

func (s *heldStore) DoAll(ctx context.Context, calls []limiter.Call) {
	s.waiting.Add(1)
	<-s.release
	s.Store.DoAll(ctx, calls)
}

func TestExpireReservations_SettlesManyAtOnceWithinABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t, new(int))
		f.reserves(200)
		f.now.Add(62_000)
		store := &heldStore{Store: f.store, release: make(chan struct{})}
		f.opt.Store = store
		var expiring sync.WaitGroup
		expiring.Go(func() { f.ExpireReservations(t.Context()) })
		synctest.Wait()
		if n := store.waiting.Load(); n != dueAtOnce {
			t.Errorf("%d settlements wait for the store, want %d", n, dueAtOnce)
		}
		close(store.release)
		expiring.Wait()
		f.opt.Store = f.store
		if got := f.opt.Open.Expired()[ExpiredUnits{"tokens", false}]; got != 2000 {
			t.Errorf("%d units came back, want 2000", got)
		}
	})
}

func TestExpireReservations_GivesUpWhatAlwaysFails(t *testing.T) {
	gaveUp := 0
	f := openFixture(t, &gaveUp)
	f.reserves(3)
	f.store.fail(&limiter.StoreError{Cause: limiter.CauseWrongType, Err: errAway.Err})
	open := func() int { return len(pages(t, f.opt.Open.list, 10)) }
	f.now.Add(62_000)
	f.ExpireReservations(t.Context())
	if open() != 3 || f.opt.Open.GivenUp() != 0 {
		t.Errorf("after the first failure %d are open, %d are given up", open(), f.opt.Open.GivenUp())
	}
	f.now.Add(giveUpAfter)
	f.ExpireReservations(t.Context())
	if open() != 0 || f.opt.Open.GivenUp() != 3 || gaveUp != 3 {
		t.Errorf("at the end %d are open, %d are given up, %d are reported", open(), f.opt.Open.GivenUp(), gaveUp)
	}
}

func TestExpired_EndsAtTheLargestNumber(t *testing.T) {
	o := NewOpenReservations(nil, nil)
	for range 3 {
		o.count(&openEntry{Keeps: 50, Limits: []OpenLimit{{Rule: "tokens", Units: math.MaxInt64}}}, false)
	}
	for of, units := range o.Expired() {
		if units != math.MaxInt64 {
			t.Errorf("%+v: %d units", of, units)
		}
	}
}

func TestOpenReservations_CountWhatTheQueueDrops(t *testing.T) {
	o := NewOpenReservations(nil, nil)
	for range openQueue + 3 {
		o.later(&ListChange{Name: "a.1"})
	}
	if got := o.Drops(); got != (OpenDrops{Queue: 3}) {
		t.Errorf("dropped %+v", got)
	}
}

// A list that is full keeps what it has. What it has no room for stays charged, and the answer says so.
func TestMemoryList_IsBounded(t *testing.T) {
	f := openFixture(t, new(int))
	list, ok := f.opt.Open.list.(*memoryList)
	if !ok {
		t.Fatal("not the list in memory")
	}
	f.reserves(1)
	list.most = list.bytes
	var a Answer
	q := Question{Op: limiter.OpTake, Weight: 10, Returns: 100, Descriptor: match.Descriptor{User: "more"}}
	if err := f.Reserve(t.Context(), &q, 60_000, &a); err != nil || a.Reservation == "" || a.Returns != 0 {
		t.Errorf("reserve: %v, %d percent come back", err, a.Returns)
	}
	if got := f.opt.Open.Drops(); got.List == 0 || len(list.entries) != 1 {
		t.Errorf("dropped %+v, the list has %d entries", got, len(list.entries))
	}
	f.now.Add(62_000)
	if f.ExpireReservations(t.Context()); list.bytes != 0 {
		t.Errorf("an empty list has %d bytes", list.bytes)
	}
	f.reserves(1)
}

// Nobody looks for a settled reservation without a request id, so it takes no room.
func TestMemoryList_ForgetsWhatWasSettled(t *testing.T) {
	f := openFixture(t, new(int))
	var a Answer
	q := Question{Op: limiter.OpTake, Weight: 10, Returns: 100, Descriptor: match.Descriptor{User: "1"}}
	if err := f.Reserve(t.Context(), &q, 60_000, &a); err != nil {
		t.Fatal(err)
	}
	if err := f.SettleReservation(t.Context(), &Settlement{Reservation: a.Reservation, Weight: 4}, &a); err != nil {
		t.Fatal(err)
	}
	f.ExpireReservations(t.Context())
	if list, ok := f.opt.Open.list.(*memoryList); !ok || len(list.entries) != 0 {
		t.Errorf("the list has %+v", f.opt.Open.list)
	}
}

func TestMemoryList_KeepsALaterVersion(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	list := NewReservationList(func() time.Time { return now })
	put := func(version int64, body string) {
		change(t, list, &ListChange{Name: "g.1", Version: version, MS: 1000, Body: []byte(body)})
	}
	put(0, "reserve")
	now = now.Add(3 * time.Second)
	due, err := list.Due(t.Context(), 10)
	if err != nil || len(due) != 1 || due[0].Version != 0 {
		t.Fatalf("due: %+v, %v", due, err)
	}
	put(7, "renewal")
	put(0, "repeat of the reserve")
	change(t, list, &ListChange{Op: ListRemove, Name: "g.1", Version: due[0].Version})
	if got := pages(t, list, 10); len(got) != 1 || got[0] != "renewal" {
		t.Errorf("the list has %v", got)
	}
	now = now.Add(3 * time.Second)
	if due, err = list.Due(t.Context(), 10); err != nil || len(due) != 1 || due[0].Version != 7 {
		t.Fatalf("due: %+v, %v", due, err)
	}
	change(t, list, &ListChange{Op: ListRemove, Name: "g.1", Version: 7})
	if got := pages(t, list, 10); len(got) != 0 {
		t.Errorf("after its removal the list has %v", got)
	}
}
