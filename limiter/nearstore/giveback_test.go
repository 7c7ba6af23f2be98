package nearstore

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"sluice/limiter"
)

// frozen is a node whose give-back of one bucket is under way and stands still
// until thaw is called.
func frozen(t *testing.T) (v *virtual, a limiter.Ask, thaw func()) {
	t.Helper()
	v = newVirtual(t, 1, Options{HotRate: 1})
	s := v.nodes[0]
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1_000_000, Window: 60_000}
	a = limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotLeased}
	for range 20 {
		take(t, s, a)
	}
	v.clock.Advance(1000) // longer than a lease is held
	s.tidy(false)
	reached, open, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var first sync.Once
	v.inner.fail = func(r *limiter.Request) error {
		if r.Op == limiter.OpSettle {
			first.Do(func() { close(reached) })
			<-open
		}
		return nil
	}
	go func() {
		defer close(done)
		s.returnOne(context.Background())
	}()
	<-reached
	return v, a, func() {
		close(open)
		<-done
	}
}

func TestGiveBack_UnderWayKeepsNoTakeWaiting(t *testing.T) {
	v, a, thaw := frozen(t)
	s := v.nodes[0]
	for range 100 {
		if !take(t, s, a).Allowed {
			t.Fatal("denied far below the limit")
		}
		s.returnLater(endedLease{id: "other", ask: a, left: 1})
		s.Forget(a.Key, true)
	}
	thaw()
	if s.Stats().Returned == 0 {
		t.Error("nothing was given back")
	}
}

func TestGiveBack_UnderWayIsWaitedForByAResetWithinItsDeadline(t *testing.T) {
	synctest.Test(t, resetDuringGiveBack)
}

func resetDuringGiveBack(t *testing.T) {
	v, a, thaw := frozen(t)
	s := v.nodes[0]
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	s.awaitReturn(ended, a.Key)
	s.awaitReturn(context.Background(), a.Key+"x") // of another bucket
	reset := make(chan struct{})
	go func() {
		defer close(reset)
		send(t, s, limiter.OpReset, "", a)
	}()
	synctest.Wait()
	select {
	case <-reset:
		t.Error("the reset overtook the give-back")
	default:
	}
	thaw()
	<-reset
	if left := send(t, s, limiter.OpPeek, "", a).Limits[0].Remaining; left != a.Limit.Count {
		t.Errorf("%d remain after the reset, want all %d", left, a.Limit.Count)
	}
}

// A lease that one node gives back is its own affair: the others keep theirs, and
// when all are given back the store holds what has passed and no more.
func TestGiveBack_LeavesOtherNodesTheirSlices(t *testing.T) {
	v := newVirtual(t, 2, Options{DenyCache: 100, HotRate: 1})
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1_000_000, Window: 60_000}
	a := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotLeased}
	passed := v.busy(t, a, 5, 1)
	for i := range 10 {
		a.Limit.Count++ // each edit ends a lease
		if take(t, v.nodes[i%2], a).Allowed {
			passed++
		}
		v.nodes[i%2].returnAll(context.Background())
	}
	returned := int64(0)
	for i, s := range v.nodes {
		_ = s.Close(context.Background())
		returned += s.Stats().Returned
		if lost := s.Stats().Lost; lost != 0 {
			t.Errorf("node %d lost %d units", i, lost)
		}
	}
	a.Weight = 0
	used := a.Limit.Count - send(t, v.inner, limiter.OpPeek, "", a).Limits[0].Remaining
	if used != passed || returned == 0 {
		t.Errorf("the store holds %d of the %d that passed, %d were returned", used, passed, returned)
	}
}
