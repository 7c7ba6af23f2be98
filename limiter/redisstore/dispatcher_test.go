package redisstore

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/limiter"
)

// queue submits batches of the given sizes.
func queue(t *testing.T, d *dispatcher, sizes ...int) []*batch {
	t.Helper()
	var out []*batch
	for _, n := range sizes {
		b := newBatch(n)
		for range n {
			b.add()
		}
		if err := d.submit(b); err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

func TestDispatcher_TakesWholeBatchesInOrderUpToABatch(t *testing.T) {
	d := newDispatcher(10, 100)
	bs := queue(t, d, 4, 5, 3, 20, 1)
	for i, want := range [][]*batch{bs[:2], bs[2:3], bs[3:4], bs[4:]} {
		got, slot, _ := d.next(nil)
		if len(got) != len(want) || got[0] != want[0] {
			t.Fatalf("batch %d has %d batches, want %d", i, len(got), len(want))
		}
		d.finish(slot, got, nil, succeeded)
	}
	if d.queue.Len() != 0 {
		t.Errorf("%d requests are left", d.queue.Len())
	}
}

func TestDispatcher_RefusesWhatExceedsItsQueue(t *testing.T) {
	d := newDispatcher(10, 8)
	bs := queue(t, d, 5, 3)
	b := newBatch(1)
	b.add()
	if cause := limiter.CauseOf(d.submit(b)); cause != limiter.CauseOverload {
		t.Errorf("got %s", cause)
	}
	d.failing = true
	if cause := limiter.CauseOf(d.submit(b)); cause != limiter.CauseBusy {
		t.Errorf("while the server does not answer: got %s", cause)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if cause := limiter.CauseOf(d.wait(ctx, ctx.Done(), bs[0])); cause != limiter.CauseCanceled {
		t.Errorf("got %s", cause)
	}
	if err := d.submit(b); err != nil {
		t.Errorf("after a caller left: %v", err)
	}
	if got, _, _ := d.next(nil); len(got) != 2 || got[0] != bs[1] || got[1] != b {
		t.Error("the batch of the caller who left is sent all the same")
	}
}

func TestDispatcher_CallerWhoLeavesAfterSendingLearnsThatItMayHaveCounted(t *testing.T) {
	d := newDispatcher(10, 8)
	b := queue(t, d, 1)[0]
	d.next(nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	se, ok := d.wait(ctx, ctx.Done(), b).(*limiter.StoreError) //nolint:errorlint // the concrete type is the promise
	if !ok || !se.Unknown || se.Cause != limiter.CauseCanceled {
		t.Errorf("got %+v", se)
	}
}

func TestDispatcher_ClosedOneEmptiesItselfFirst(t *testing.T) {
	d := newDispatcher(10, 8)
	bs := queue(t, d, 1)
	d.close()
	if got, _, _ := d.next(nil); len(got) != 1 || got[0] != bs[0] {
		t.Error("what was accepted is lost")
	}
	if got, _, _ := d.next(nil); len(got) != 0 {
		t.Error("a closed dispatcher gives out more than it has")
	}
}

func TestDispatcher_SecondCallWaitsForHalfOfWhatTheFirstCarries(t *testing.T) {
	d := newDispatcher(10, 100)
	bs := queue(t, d, 6)
	first, slot, _ := d.next(nil)
	queue(t, d, 2)
	if d.mayStart(d.queue.Len()) {
		t.Error("2 requests set off beside a call with 6")
	}
	queue(t, d, 1)
	if !d.mayStart(d.queue.Len()) {
		t.Error("3 requests wait for a call with 6 to return")
	}
	if got, _, _ := d.next(nil); len(got) != 2 {
		t.Fatalf("the second call has %d batches", len(got))
	}
	queue(t, d, 9)
	if got, _, _ := d.next(nil); len(got) != 1 {
		t.Fatalf("the third call has %d batches", len(got))
	}
	queue(t, d, 10)
	if d.mayStart(d.queue.Len()) {
		t.Error("a fourth call sets off")
	}
	d.finish(slot, first, nil, succeeded)
	if !d.mayStart(d.queue.Len()) {
		t.Error("nothing sets off when a call has returned")
	}
	if len(bs[0].done) != 1 {
		t.Error("the first call's batch is not answered")
	}
}

func TestDispatcher_CalmOneLetsTheCallerMakeTheCall(t *testing.T) {
	d := newDispatcher(10, 100)
	one := func() *batch {
		b := newBatch(1)
		b.add()
		b.bind(&limiter.Bound{Start: wallTime(), Deadline: wallTime().Add(time.Hour)})
		return b
	}
	var slots []int
	for n := range inFlight { // each as much as a half of those before, or more
		slot, ok, err := d.claim(one(), wallTime())
		if err != nil || !ok {
			t.Fatalf("caller %d does not make its call: %v", n, err)
		}
		slots = append(slots, slot)
	}
	other := one()
	if _, ok, err := d.claim(other, wallTime()); err != nil || ok {
		t.Fatal("one caller more makes its call beside the others", err)
	}
	d.finish(slots[0], nil, nil, succeeded)
	if _, ok, err := d.claim(one(), wallTime()); err != nil || ok {
		t.Fatal("a caller goes past one who waits", err)
	}
	if got, _, _ := d.next(nil); len(got) != 2 || got[0] != other {
		t.Error("those who wait do not go together")
	}
	lone := d.calls[slots[1]].batches[0]
	lone.deadline = wallTime()
	d.expire()
	d.finish(slots[1], nil, nil, succeeded)
	if len(lone.done) != 0 {
		t.Error("who makes its own call is also signalled")
	}
}

func TestDispatcher_BusyOneGathersWhatComes(t *testing.T) {
	d := newDispatcher(10, 100)
	queue(t, d, 6)
	d.next(nil)
	b := newBatch(1)
	b.add()
	if _, ok, err := d.claim(b, wallTime()); err != nil || ok {
		t.Error("a lone request sets off beside a call with 6", err)
	}
}

func TestDispatcher_DoesNotSendWhatItsCallerHasLeft(t *testing.T) {
	d := newDispatcher(10, 100)
	ctx, leave := context.WithCancel(context.Background())
	b := newBatch(1)
	b.add()
	b.canceled = ctx.Done()
	if err := d.submit(b); err != nil {
		t.Fatal(err)
	}
	leave()
	other := queue(t, d, 1)[0]
	if got, _, _ := d.next(nil); len(got) != 1 || got[0] != other || d.queue.Len() != 0 {
		t.Errorf("%d batches are sent and %d requests wait, want the one whose caller waits alone", len(got), d.queue.Len())
	}
	se, ok := d.wait(ctx, nil, b).(*limiter.StoreError) //nolint:errorlint // the concrete type is the promise
	if !ok || se.Unknown || se.Cause != limiter.CauseCanceled {
		t.Errorf("got %+v, want canceled and nothing applied", se)
	}
}

// watched submits a batch of one request with a deadline that the dispatcher keeps.
func watched(t *testing.T, d *dispatcher, until time.Time) *batch {
	t.Helper()
	b := newBatch(1)
	b.add()
	b.bind(&limiter.Bound{Start: wallTime(), Deadline: until, Hard: until})
	if err := d.submit(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// A request whose caller has left is not sent; the others of its batch are.
func TestDispatcher_LeavesOutWhoseCallerHasLeft(t *testing.T) {
	d := newDispatcher(10, 100)
	b := newBatch(3)
	for range 3 {
		b.add()
	}
	gone := new(atomic.Bool)
	b.requests[0].Gone, b.requests[1].Gone = gone, new(atomic.Bool)
	all := newBatch(1)
	all.add().Gone = gone
	for _, b := range []*batch{b, all} {
		if err := d.submit(b); err != nil {
			t.Fatal(err)
		}
	}
	gone.Store(true)
	if got, _, _ := d.next(nil); len(got) != 1 || got[0] != b {
		t.Fatalf("%d batches are sent, want the one of which some callers are left", len(got))
	}
	var se *limiter.StoreError
	if !errors.As(b.requests[0].Err, &se) || se.Cause != limiter.CauseCanceled || se.Unknown {
		t.Errorf("its caller has left: %v", b.requests[0].Err)
	}
	if b.requests[1].Err != nil || b.requests[2].Err != nil {
		t.Errorf("their callers wait: %v, %v", b.requests[1].Err, b.requests[2].Err)
	}
	if err := d.wait(t.Context(), nil, all); err != nil || !errors.Is(all.requests[0].Err, errGone) {
		t.Errorf("all have left: %v, %v", err, all.requests[0].Err)
	}
}

// A request that came too late is overload while the server answers. If it does not, its fail mode decides.
func TestDispatcher_RefusesWhatCameTooLate(t *testing.T) {
	for _, failing := range []bool{false, true} {
		d := newDispatcher(10, 100)
		d.failing = failing
		b := newBatch(2)
		b.add().Late = true
		b.add()
		all := newBatch(1)
		all.add().Late = true
		for _, b := range []*batch{all, b} {
			if err := d.submit(b); err != nil {
				t.Fatal(err)
			}
		}
		got, _, _ := d.next(nil)
		if failing {
			if len(got) != 2 || b.requests[0].Err != nil {
				t.Errorf("%d batches are sent to a server that fails, %v", len(got), b.requests[0].Err)
			}
			continue
		}
		if len(got) != 1 || got[0] != b || b.requests[1].Err != nil {
			t.Fatalf("%d batches are sent, %v, want the one of which a request is in time", len(got), b.requests[1].Err)
		}
		if err := d.wait(t.Context(), nil, all); err != nil || !errors.Is(all.requests[0].Err, errOverload) {
			t.Errorf("all came too late: %v, %v", err, all.requests[0].Err)
		}
		if !errors.Is(b.requests[0].Err, errOverload) {
			t.Errorf("it came too late: %v", b.requests[0].Err)
		}
	}
}

func TestDispatcher_KeepsEachDeadlineOfWhatItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(10, 100)
		now := wallTime()
		sent := watched(t, d, now.Add(20*time.Millisecond))
		batches, slot, _ := d.next(nil)
		sooner := watched(t, d, now.Add(10*time.Millisecond))
		later := watched(t, d, now.Add(time.Hour))
		for _, tt := range []struct {
			b       *batch
			unknown bool
		}{{sooner, false}, {sent, true}} {
			err := d.wait(context.Background(), nil, tt.b)
			se, ok := err.(*limiter.StoreError) //nolint:errorlint // the concrete type is the promise
			if !ok || se.Cause != limiter.CauseTimeout || se.Unknown != tt.unknown {
				t.Errorf("got %+v, want a timeout with unknown %v", err, tt.unknown)
			}
		}
		if wallTime().Before(sent.deadline) {
			t.Error("the deadline was cut short")
		}
		d.finish(slot, batches, nil, succeeded) // must not answer the expired batch a second time
		if len(sent.done) != 0 {
			t.Error("an expired batch was answered again")
		}
		if got, _, _ := d.next(nil); len(got) != 1 || got[0] != later {
			t.Error("the queue lost the batch whose deadline is far, or kept the expired one")
		}
	})
}
