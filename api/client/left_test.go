package client

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// gatherBatch runs each of start until it waits for a check, and then has these checks sent as one batch. It waits for
// gate, and its answer is that of fail.
func gatherBatch(t *testing.T, c *Client, f *fake, gate chan struct{}, fail func(fakeCall) *failure, start ...func()) {
	t.Helper()
	f.set(gate, fail)
	d := &c.checks
	d.mu.Lock()
	d.calls += maxCalls // so that none may start
	d.mu.Unlock()
	for _, s := range start {
		go s()
		synctest.Wait()
	}
	d.mu.Lock()
	d.calls -= maxCalls
	d.startCalls()
	d.mu.Unlock()
	synctest.Wait()
	if calls := f.seen(); len(calls) != 1 || len(calls[0].bodies) != len(start) {
		t.Fatalf("%d calls, want one with %d checks", len(calls), len(start))
	}
}

// A batch that is refused has charged nothing, so the check of a caller that left meanwhile is not sent again, and the
// others still have a call.
func TestCheck_CallersThatLeaveARefusedBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newFake(t, Options{Timeout: long})
		bad := direct("bad")
		bad.Weight = new(int64(-1))
		leaving, leave := context.WithCancel(t.Context())
		later, leaveLater := context.WithCancel(t.Context())
		first, second := make(chan struct{}), make(chan struct{})
		stayed := make(chan struct{})
		left := func(ctx context.Context, q Check) func() {
			return func() {
				if _, err := c.Check(ctx, q); !errors.Is(err, context.Canceled) {
					t.Errorf("%s got %v", q.Key, err)
				}
			}
		}
		gatherBatch(t, c, f, first, refuseBad(true), left(leaving, bad), left(leaving, direct("leaver")),
			left(later, direct("later")), func() {
				defer close(stayed)
				if a, err := c.Check(t.Context(), direct("stays")); err != nil || a.ByClient {
					t.Errorf("the caller that stayed got %+v, %v", a, err)
				}
			})
		leave()
		synctest.Wait()
		f.set(second, nil)
		close(first)
		synctest.Wait()
		leaveLater()
		synctest.Wait()
		close(second)
		<-stayed
		calls := f.seen()
		if sent := strings.Join(calls[len(calls)-1].bodies, ""); strings.Contains(sent, "leaver") {
			t.Errorf("the check of a caller that had left was sent again: %s", sent)
		}
	})
}

// Close ends a batch between its refusal and the next call for those of its checks that are valid.
func TestClose_EndsABatchThatIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newFake(t, Options{Timeout: long})
		bad := direct("bad")
		bad.Weight = new(int64(-1))
		gate := make(chan struct{})
		var wg sync.WaitGroup
		wg.Add(3)
		check := func(q Check, want error) func() {
			return func() {
				defer wg.Done()
				_, err := c.Check(t.Context(), q)
				var p *Problem
				if want == nil && !errors.As(err, &p) || want != nil && !errors.Is(err, want) {
					t.Errorf("%s got %v", q.Key, err)
				}
			}
		}
		gatherBatch(t, c, f, gate, func(call fakeCall) *failure {
			go c.Close()
			synctest.Wait()
			return refuseBad(true)(call)
		}, check(bad, nil), check(direct("a"), ErrClosed), check(direct("b"), ErrClosed))
		close(gate)
		wg.Wait()
	})
}

// A batch that all its callers leave at their timeouts is a failure of the service.
func TestBreaker_CountsABatchThatIsTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newFake(t, Options{})
		var wg sync.WaitGroup
		wg.Add(2)
		check := func() {
			defer wg.Done()
			if a, err := c.Check(t.Context(), direct("k")); err != nil || !a.ByClient {
				t.Errorf("got %+v, %v", a, err)
			}
		}
		gatherBatch(t, c, f, make(chan struct{}), nil, check, check)
		wg.Wait()
		synctest.Wait()
		if c.breaker.failures != 1 {
			t.Errorf("%d failures, want 1", c.breaker.failures)
		}
	})
}
