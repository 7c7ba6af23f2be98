package redisstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// promptness is a limiter.Bounded whose deadline is the store's to keep: nothing
// else would end it.
type promptness struct {
	context.Context
	start, until time.Time
	leave        chan struct{}
}

func within(d time.Duration) *promptness {
	now := time.Now()
	return &promptness{Context: context.Background(), start: now, until: now.Add(d), leave: make(chan struct{})}
}

func (p *promptness) Deadline() (time.Time, bool) { return p.until, true }

func (p *promptness) Bound() limiter.Bound {
	return limiter.Bound{Start: p.start, Deadline: p.until, Canceled: p.leave}
}

func (p *promptness) Err() error {
	select {
	case <-p.leave:
		return context.Canceled
	default:
		return nil
	}
}

func TestStore_KeepsTheDeadlinesOfBoundedContextsByItself(t *testing.T) {
	srv := testenv.Redis(t)
	s := open(t, client(t, srv.URL()), redisstore.Options{})
	a := ask(entity(), 1, limits(month)[0])
	take(t, s, "", a)
	srv.Pause()
	var wg sync.WaitGroup
	unknown := make([]bool, 20)
	for i := range unknown {
		wg.Go(func() {
			// Some carry a call themselves, some wait for one, some are too patient
			// to carry, and all of them hear when their time is over, or before that it
			// will not be enough.
			p := within(time.Duration(20+10*i) * time.Millisecond)
			call := limiter.Call{Request: limiter.Request{Asks: []limiter.Ask{a}}}
			if i%3 == 0 {
				calls := []limiter.Call{call}
				s.DoAll(p, calls)
				call = calls[0]
			} else {
				call.Err = s.Do(p, &call.Request, &call.Result)
			}
			err := call.Err
			switch limiter.CauseOf(err) {
			case limiter.CauseTimeout, limiter.CauseBreaker, limiter.CauseBusy:
			default:
				t.Errorf("got %v", err)
			}
			se, ok := err.(*limiter.StoreError) //nolint:errorlint // the concrete type is the promise
			unknown[i] = ok && se.Unknown
		})
	}
	wg.Wait()
	srv.Resume()
	maybe := int64(0)
	for _, u := range unknown {
		if u {
			maybe++
		}
	}
	eventually(t, "it decides again", func() bool {
		return s.Do(context.Background(), &limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{a}},
			&limiter.Result{}) == nil
	})
	if used := 99 - do(t, s, limiter.OpPeek, "", a).Limits[0].Remaining; used > maybe {
		t.Errorf("%d requests were applied, but only %d were said to be possible", used, maybe)
	}
}

func TestStore_BoundedCallerWhoLeavesIsAnsweredAtOnce(t *testing.T) {
	srv := testenv.Redis(t)
	s := open(t, client(t, srv.URL()), redisstore.Options{})
	a := ask(entity(), 1, limits(month)[0])
	gone := within(time.Hour)
	close(gone.leave)
	wantCause(t, s.Do(gone, &limiter.Request{Asks: []limiter.Ask{a}}, &limiter.Result{}), limiter.CauseCanceled, false)

	srv.Pause()
	defer srv.Resume()
	p := within(time.Hour)
	done := make(chan error)
	go func() { done <- s.Do(p, &limiter.Request{Asks: []limiter.Ask{a}}, &limiter.Result{}) }()
	close(p.leave)
	if cause := limiter.CauseOf(<-done); cause != limiter.CauseCanceled {
		t.Errorf("got %s", cause)
	}
}
