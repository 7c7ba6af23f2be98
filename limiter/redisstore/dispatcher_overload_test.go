package redisstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/limiter"
)

// hurried makes a batch of n requests that has left of its within.
func hurried(n int, left, within time.Duration) *batch {
	b := newBatch(n)
	for range n {
		b.add()
	}
	b.deadline, b.within, b.bounded, b.watched = wallTime().Add(left), within, true, true
	return b
}

func TestDispatcher_DoesNotSendWhatHasTooLittleTimeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const within = 30 * time.Millisecond
		for _, tt := range []struct {
			name       string
			took, left time.Duration
			sent       bool
		}{
			{"four calls long", time.Millisecond, 4 * time.Millisecond, true},
			{"less", time.Millisecond, 4*time.Millisecond - 1, false},
			{"a third, of a slow server", time.Second, within / 3, true},
			{"less than a third", time.Second, within/3 - 1, false},
			{"nothing known of the server", 0, 1, true},
		} {
			d := newDispatcher(10, 100)
			d.took = tt.took
			b, other := hurried(1, tt.left, within), hurried(1, within, within)
			for _, b := range []*batch{b, other} {
				b.watched = false // else the timer may be the first to look at it
				if err := d.submit(b); err != nil {
					t.Fatal(err)
				}
			}
			got, _, _ := d.next(nil)
			if sent := len(got) == 2; sent != tt.sent || got[len(got)-1] != other {
				t.Errorf("%s: sent is %v", tt.name, sent)
			}
			if tt.sent {
				continue
			}
			err := d.wait(context.Background(), nil, b)
			se, ok := err.(*limiter.StoreError) //nolint:errorlint // the concrete type is the promise
			if !ok || se.Cause != limiter.CauseBusy || se.Unknown {
				t.Errorf("%s: got %+v, want that it was busy and nothing was sent", tt.name, se)
			}
			if d.queued != 0 {
				t.Errorf("%s: the dispatcher counts %d requests in its queue", tt.name, d.queued)
			}
		}
	})
}

// TestLane_OfferedTooMuchStillDoesItsBest sends twice what a server can do.
// Sent in order of arrival to the last, every request would be too old by its
// turn, and none would be answered.
func TestDispatcher_OfferedTooMuchStillDoesItsBest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			call, each = 100 * time.Microsecond, 10 * time.Microsecond
			within     = 25 * time.Millisecond
			length     = time.Second
			callers    = 64
			size       = 100
		)
		d := newDispatcher(size, 4096)
		var wg sync.WaitGroup
		wg.Go(func() { // the server, behind one connection
			for {
				batches, slot, _ := d.next(nil)
				if len(batches) == 0 {
					return
				}
				n := 0
				for _, b := range batches {
					n += len(b.requests)
				}
				<-time.After(call + time.Duration(n)*each)
				d.finish(slot, batches, nil)
			}
		})
		var mu sync.Mutex
		answered, unknown := 0, 0
		end := wallTime().Add(length)
		var load sync.WaitGroup
		for range callers {
			load.Go(func() {
				for wallTime().Before(end) {
					b := hurried(size, within, within)
					err := d.submit(b)
					if err == nil {
						err = d.wait(context.Background(), nil, b)
					}
					var se *limiter.StoreError
					mu.Lock()
					switch {
					case err == nil:
						answered += size
					case errors.As(err, &se) && se.Unknown:
						unknown += size
					}
					mu.Unlock()
					if err != nil {
						<-time.After(time.Millisecond) // spent on the answer of its fail mode
					}
				}
			})
		}
		load.Wait()
		d.close()
		wg.Wait()
		best := int(length/(call+size*each)) * size
		if answered < best*9/10 {
			t.Errorf("%d of %d possible requests were answered", answered, best)
		}
		if unknown > best/100 {
			t.Errorf("%d requests were sent for nothing", unknown)
		}
	})
}

// TestDispatcher_AnswersWhoWaitsForAServerThatDoesNotAnswer: who waits beside a call that does not
// return hears as soon as a return would come too late for it, before the deadline.
func TestDispatcher_AnswersWhoWaitsForAServerThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const within = 30 * time.Millisecond
		d := newDispatcher(10, 100)
		d.took = time.Millisecond / 2
		start := wallTime()
		sent := hurried(3, within, within)
		if err := d.submit(sent); err != nil {
			t.Fatal(err)
		}
		batches, call, _ := d.next(nil)
		waiting := hurried(1, within, within)
		if err := d.submit(waiting); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			b     *batch
			after time.Duration
		}{{waiting, within - within/leastPart}, {sent, within}} {
			err := d.wait(context.Background(), nil, tt.b)
			se, ok := err.(*limiter.StoreError) //nolint:errorlint // the concrete type is the promise
			if !ok || se.Cause != limiter.CauseTimeout || se.Unknown != (tt.b == sent) {
				t.Errorf("got %+v, want a timeout of what was sent or not", err)
			}
			if took := wallTime().Sub(start); took != tt.after {
				t.Errorf("answered after %s, want %s", took, tt.after)
			}
		}
		if d.queued != 0 || len(d.queue) != 0 {
			t.Errorf("%d requests are still in the queue", d.queued)
		}
		d.finish(call, batches, nil)
		d.close()
		d.drain()
	})
}

// TestDispatcher_WhoWaitsForASlowServerIsSentWhileItIsWorthwhile: only what a return of the call
// would not send any more is answered before its deadline.
func TestDispatcher_WhoWaitsForASlowServerIsSentWhileItIsWorthwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const within = 30 * time.Millisecond
		const last = within - within/leastPart // after this, too little is left
		for _, tt := range []struct {
			returns time.Duration
			sent    bool
		}{{last - time.Millisecond, true}, {last + time.Millisecond, false}} {
			d := newDispatcher(10, 100)
			first, waiting := hurried(3, time.Hour, time.Hour), hurried(1, within, within)
			for i, b := range []*batch{first, waiting} {
				if err := d.submit(b); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					d.next(nil)
				}
			}
			<-time.After(tt.returns)
			d.finish(0, []*batch{first}, nil)
			d.close()
			got, _, _ := d.next(nil)
			if sent := len(got) == 1 && got[0] == waiting; sent != tt.sent {
				t.Errorf("a call that returns after %s: sent is %v", tt.returns, sent)
			}
		}
	})
}
