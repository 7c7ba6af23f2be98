package redisstore

import (
	"context"
	"testing"
	"time"

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
		got, slot := l.take(nil)
		if len(got) != len(want) || got[0] != want[0] {
			t.Fatalf("batch %d has %d groups, want %d", i, len(got), len(want))
		}
		l.finish(slot, got)
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
	if cause := limiter.CauseOf(l.wait(ctx, ctx.Done(), gs[0])); cause != limiter.CauseCanceled {
		t.Errorf("got %s", cause)
	}
	if err := l.submit(g); err != nil {
		t.Errorf("after a caller left: %v", err)
	}
	if got, _ := l.take(nil); len(got) != 2 || got[0] != gs[1] || got[1] != g {
		t.Error("the group of the caller who left is sent all the same")
	}
}

func TestLane_CallerWhoLeavesAfterSendingLearnsThatItMayHaveCounted(t *testing.T) {
	l := newLane(10, 8)
	g := queue(t, l, 1)[0]
	l.take(nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	se, ok := l.wait(ctx, ctx.Done(), g).(*limiter.StoreError) //nolint:errorlint // the concrete type is the promise
	if !ok || !se.Unknown || se.Cause != limiter.CauseCanceled {
		t.Errorf("got %+v", se)
	}
}

func TestLane_ClosedLaneEmptiesItselfFirst(t *testing.T) {
	l := newLane(10, 8)
	gs := queue(t, l, 1)
	l.close()
	if got, _ := l.take(nil); len(got) != 1 || got[0] != gs[0] {
		t.Error("what was accepted is lost")
	}
	if got, _ := l.take(nil); len(got) != 0 {
		t.Error("a closed lane gives out more than it has")
	}
}

func TestLane_SecondCallWaitsForHalfOfWhatTheFirstCarries(t *testing.T) {
	l := newLane(10, 100)
	gs := queue(t, l, 6)
	first, slot := l.take(nil)
	queue(t, l, 2)
	if l.ripe() {
		t.Error("2 requests set off beside a call with 6")
	}
	queue(t, l, 1)
	if !l.ripe() {
		t.Error("3 requests wait for a call with 6 to return")
	}
	if got, _ := l.take(nil); len(got) != 2 {
		t.Fatalf("the second call has %d groups", len(got))
	}
	queue(t, l, 9)
	if got, _ := l.take(nil); len(got) != 1 {
		t.Fatalf("the third call has %d groups", len(got))
	}
	queue(t, l, 10)
	if l.ripe() {
		t.Error("a fourth call sets off")
	}
	l.finish(slot, first)
	if !l.ripe() {
		t.Error("nothing sets off when a call has returned")
	}
	if len(gs[0].done) != 1 {
		t.Error("the first call's group is not answered")
	}
}

func TestLane_CalmLaneIsItsCallersOwn(t *testing.T) {
	l := newLane(10, 100)
	one := func() *group {
		g := newGroup(1)
		g.add()
		g.deadline, g.bounded, g.watched = wallTime().Add(time.Hour), true, true
		return g
	}
	var slots []int
	for n := range inFlight { // each as much as a half of those before, or more
		slot, ok, err := l.claim(one())
		if err != nil || !ok {
			t.Fatalf("caller %d does not carry: %v", n, err)
		}
		slots = append(slots, slot)
	}
	other := one()
	if _, ok, err := l.claim(other); err != nil || ok {
		t.Fatal("one caller more carries beside the others", err)
	}
	l.finish(slots[0], nil)
	if _, ok, err := l.claim(one()); err != nil || ok {
		t.Fatal("a caller carries past one who waits", err)
	}
	if got, _ := l.take(nil); len(got) != 2 || got[0] != other {
		t.Error("those who wait do not go together")
	}
	lone := l.flights[slots[1]].groups[0]
	lone.deadline = wallTime()
	l.expire()
	l.finish(slots[1], nil)
	if len(lone.done) != 0 {
		t.Error("who carries by itself is also signalled")
	}
}

func TestLane_BusyLaneGathersWhatComes(t *testing.T) {
	l := newLane(10, 100)
	queue(t, l, 6)
	l.take(nil)
	g := newGroup(1)
	g.add()
	if _, ok, err := l.claim(g); err != nil || ok {
		t.Error("a lone request sets off beside a call with 6", err)
	}
}

// watched submits a group of one request with a deadline that the lane keeps.
func watched(t *testing.T, l *lane, until time.Time) *group {
	t.Helper()
	g := newGroup(1)
	g.add()
	g.deadline, g.bounded, g.watched = until, true, true
	if err := l.submit(g); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestLane_KeepsEachDeadlineOfWhatItHolds(t *testing.T) {
	l := newLane(10, 100)
	now := wallTime()
	sent := watched(t, l, now.Add(20*time.Millisecond))
	batch, slot := l.take(nil)
	sooner := watched(t, l, now.Add(10*time.Millisecond))
	later := watched(t, l, now.Add(time.Hour))
	for _, tt := range []struct {
		g       *group
		unknown bool
	}{{sooner, false}, {sent, true}} {
		err := l.wait(context.Background(), nil, tt.g)
		se, ok := err.(*limiter.StoreError) //nolint:errorlint // the concrete type is the promise
		if !ok || se.Cause != limiter.CauseTimeout || se.Unknown != tt.unknown {
			t.Errorf("got %+v, want a timeout with unknown %v", err, tt.unknown)
		}
	}
	if wallTime().Before(sent.deadline) {
		t.Error("the deadline was cut short")
	}
	l.finish(slot, batch) // must not answer the expired group a second time
	if len(sent.done) != 0 {
		t.Error("an expired group was answered again")
	}
	if got, _ := l.take(nil); len(got) != 1 || got[0] != later {
		t.Error("the queue lost the group whose deadline is far, or kept the expired one")
	}
}
