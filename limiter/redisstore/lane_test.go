package redisstore

import (
	"context"
	"testing"

	"sluice/limiter"
)

// queue submits groups of the given sizes.
func queue(t *testing.T, l *lane, sizes ...int) []*group {
	t.Helper()
	var out []*group
	for _, n := range sizes {
		g := newGroup(n)
		for range n {
			g.add()
		}
		if err := l.submit(g); err != nil {
			t.Fatal(err)
		}
		out = append(out, g)
	}
	return out
}

func TestLane_TakesWholeGroupsInOrderUpToABatch(t *testing.T) {
	l := newLane(10, 100)
	gs := queue(t, l, 4, 5, 3, 20, 1)
	for i, want := range [][]*group{gs[:2], gs[2:3], gs[3:4], gs[4:]} {
		got := l.take(nil)
		if len(got) != len(want) || got[0] != want[0] {
			t.Fatalf("batch %d has %d groups, want %d", i, len(got), len(want))
		}
	}
	if l.queued != 0 || len(l.queue) != 0 {
		t.Errorf("%d requests and %d groups are left", l.queued, len(l.queue))
	}
}

func TestLane_RefusesWhatExceedsItsQueue(t *testing.T) {
	l := newLane(10, 8)
	gs := queue(t, l, 5, 3)
	g := newGroup(1)
	g.add()
	if cause := limiter.CauseOf(l.submit(g)); cause != limiter.CauseBusy {
		t.Errorf("got %s", cause)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if cause := limiter.CauseOf(l.wait(ctx, gs[0])); cause != limiter.CauseCanceled {
		t.Errorf("got %s", cause)
	}
	if err := l.submit(g); err != nil {
		t.Errorf("after a caller left: %v", err)
	}
	if got := l.take(nil); len(got) != 2 || got[0] != gs[1] || got[1] != g {
		t.Error("the group of the caller who left is sent all the same")
	}
}

func TestLane_CallerWhoLeavesAfterSendingLearnsThatItMayHaveCounted(t *testing.T) {
	l := newLane(10, 8)
	g := queue(t, l, 1)[0]
	l.take(nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	se, ok := l.wait(ctx, g).(*limiter.StoreError) //nolint:errorlint // the concrete type is the promise
	if !ok || !se.Unknown || se.Cause != limiter.CauseCanceled {
		t.Errorf("got %+v", se)
	}
}

func TestLane_ClosedLaneEmptiesItselfFirst(t *testing.T) {
	l := newLane(10, 8)
	gs := queue(t, l, 1)
	l.close()
	if got := l.take(nil); len(got) != 1 || got[0] != gs[0] {
		t.Error("what was accepted is lost")
	}
	if got := l.take(nil); len(got) != 0 {
		t.Error("a closed lane gives out more than it has")
	}
}
