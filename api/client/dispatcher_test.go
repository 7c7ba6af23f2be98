package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// ask checks n keys at once, k0 to k(n-1), and returns when all wait or have an answer. The function that it returns
// waits for all answers.
func ask(t *testing.T, c *Client, n int) (wait func()) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			key := fmt.Sprintf("k%d", i)
			a, err := c.Check(t.Context(), direct(key))
			if err != nil || !a.Allowed || len(a.Limits) != 1 || a.Limits[0].Key != key {
				t.Errorf("%s got %+v, %v", key, a, err)
			}
		})
	}
	synctest.Wait()
	return wg.Wait
}

func TestCheck_GathersWhileCallsAreInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newFake(t, Options{Timeout: long})
		gate := make(chan struct{})
		f.set(gate, nil)
		wait := ask(t, c, 64)
		held := f.seen()
		if len(held) > maxCalls {
			t.Errorf("%d calls in flight, at most %d are promised", len(held), maxCalls)
		}
		if held[0].path != "/ratelimit/check" {
			t.Errorf("the first check waited for others: %s", held[0].path)
		}
		close(gate)
		wait()
		calls, checks := f.seen(), 0
		for _, c := range calls {
			checks += len(c.bodies)
		}
		if checks != 64 || len(calls) > maxCalls+1 {
			t.Errorf("%d checks in %d calls, want 64 in at most %d", checks, len(calls), maxCalls+1)
		}
	})
}

func TestCheck_GoesAtOnceIfNothingIsInFlight(t *testing.T) {
	c, f := newFake(t, Options{})
	for range 3 {
		if _, err := c.Check(t.Context(), direct("k")); err != nil {
			t.Fatal(err)
		}
	}
	for _, call := range f.seen() {
		if call.path != "/ratelimit/check" {
			t.Errorf("a lone check went to %s", call.path)
		}
	}
}

func TestCheck_BatchesStayWithinTheirBounds(t *testing.T) {
	for name, tt := range map[string]struct {
		callers int
		key     string
	}{"checks": {callers: 2500, key: "k"}, "bytes": {callers: 200, key: strings.Repeat("k", 15_000)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, f := newFake(t, Options{Timeout: long})
				gate := make(chan struct{})
				f.set(gate, nil)
				var wg sync.WaitGroup
				for range tt.callers {
					wg.Go(func() {
						if _, err := c.Check(t.Context(), direct(tt.key)); err != nil {
							t.Error(err)
						}
					})
				}
				synctest.Wait()
				close(gate)
				wg.Wait()
				total := 0
				for _, call := range f.seen() {
					size := len(`{"checks":[]}`)
					for _, b := range call.bodies {
						size += len(b) + 1
					}
					if len(call.bodies) > 1000 || size > 1<<20 {
						t.Errorf("a batch of %d checks and %d bytes", len(call.bodies), size)
					}
					total += len(call.bodies)
				}
				if total != tt.callers {
					t.Errorf("%d checks were sent, want %d", total, tt.callers)
				}
			})
		})
	}
}

func TestCheck_WithAPayloadTravelsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newFake(t, Options{Timeout: long})
		gate := make(chan struct{})
		f.set(gate, nil)
		wait := ask(t, c, 20)
		before := len(f.seen())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := c.Check(t.Context(), Check{User: "u", Payload: new("")}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		for _, call := range f.seen()[before:] {
			if call.path != "/ratelimit/check" || call.bodies[0] != `{"user":"u","payload":""}` {
				t.Errorf("%s %s", call.path, call.bodies)
			}
		}
		if n := len(f.seen()) - before; n != 3 {
			t.Errorf("%d of 3 checks with a payload were sent", n)
		}
		close(gate)
		wg.Wait()
		wait()
	})
}

// A caller that leaves does so at once. What was not sent is never sent, and a call for which nobody waits is
// cancelled.
func TestCheck_CallerThatLeavesIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newFake(t, Options{Timeout: long})
		gate := make(chan struct{})
		f.set(gate, nil)
		wait := ask(t, c, 40)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := c.Check(ctx, direct("leaver"))
			left <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		close(gate)
		wait()
		for _, call := range f.seen() {
			if strings.Contains(strings.Join(call.bodies, ""), "leaver") {
				t.Errorf("the check of a caller that had left was sent: %v", call.bodies)
			}
		}
	})
}

func TestCheck_CallIsCancelledWhenAllItsCallersHaveLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newFake(t, Options{Timeout: long})
		f.set(make(chan struct{}), nil) // never opens
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := c.Check(ctx, direct("k")); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		synctest.Wait()
		f.set(nil, nil)
		if _, err := c.Check(t.Context(), direct("k")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if c.checks.calls != 0 || c.checks.carried != 0 || c.checks.queue.Len() != 0 {
			t.Errorf("calls %d, carried %d, queued %d", c.checks.calls, c.checks.carried, c.checks.queue.Len())
		}
		if c.breaker.failures != 0 {
			t.Errorf("callers that left count as %d failures", c.breaker.failures)
		}
	})
}

// refuseBad answers a batch as the service does: with invalid checks, nothing is decided.
func refuseBad(named bool) func(fakeCall) *failure {
	return func(c fakeCall) *failure {
		var errs []string
		for i, b := range c.bodies {
			if !strings.Contains(b, `"weight":-1`) {
				continue
			}
			field := "weight"
			if c.path == batchPath {
				field = fmt.Sprintf("checks[%d].weight", i)
			}
			if !named {
				field = "body"
			}
			errs = append(errs, fmt.Sprintf(`{"field":%q,"message":"is bad"}`, field))
		}
		if len(errs) == 0 {
			return nil
		}
		return &failure{status: 422, body: `{"type":"/problems/invalid","title":"Invalid fields","status":422,"errors":[` +
			strings.Join(errs, ",") + `]}`}
	}
}

func TestCheck_InvalidOneDoesNotFailTheOthers(t *testing.T) {
	for _, named := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c, f := newFake(t, Options{Timeout: long})
			gate := make(chan struct{})
			f.set(gate, refuseBad(named))
			wait := ask(t, c, 30)
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() {
					q := direct(fmt.Sprintf("bad%d", i))
					q.Weight = new(int64(-1))
					_, err := c.Check(t.Context(), q)
					var p *Problem
					if !errors.As(err, &p) || p.Status != 422 || len(p.Errors) != 1 || named && p.Errors[0].Field != "weight" {
						t.Errorf("got %v", err)
					}
				})
			}
			wait2 := ask(t, c, 30)
			close(gate)
			wait()
			wait2()
			wg.Wait()
			// Each check was decided once: a batch that is refused decides nothing.
			decided := map[string]int{}
			for _, call := range f.seen() {
				if refuseBad(named)(call) != nil {
					continue
				}
				for _, b := range call.bodies {
					decided[b]++
				}
			}
			for b, n := range decided {
				if n != 2 { // ask was called twice
					t.Errorf("%s was decided %d times", b, n)
				}
			}
			if len(decided) != 30 {
				t.Errorf("%d different checks were decided, want 30", len(decided))
			}
		})
	}
}

// A batch that is refused for an invalid check while the client is closed is not sent again, and its callers hear why.
func TestClose_EndsABatchBetweenTwoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newFake(t, Options{Timeout: long})
		gate, closed := make(chan struct{}), make(chan struct{})
		f.set(gate, func(call fakeCall) *failure {
			refused := refuseBad(true)(call)
			if refused != nil && call.path == batchPath {
				go func() {
					defer close(closed)
					c.Close()
				}()
				<-c.checks.ctx.Done()
			}
			return refused
		})
		var wg sync.WaitGroup
		var ended atomic.Int64
		for i := range 40 {
			q := direct("k")
			if i == 30 {
				q.Weight = new(int64(-1))
			}
			wg.Go(func() {
				a, err := c.Check(t.Context(), q)
				var p *Problem
				switch {
				case errors.Is(err, ErrClosed):
					ended.Add(1)
				case errors.As(err, &p) && q.Weight != nil:
				case err != nil || a.Degraded != "":
					t.Errorf("got %+v, %v", a, err)
				}
			})
			synctest.Wait()
		}
		close(gate)
		wg.Wait()
		<-closed
		if ended.Load() == 0 {
			t.Error("no check was ended by Close")
		}
	})
}

func TestClose_EndsTheChecksThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newFake(t, Options{Timeout: long})
		gate := make(chan struct{})
		f.set(gate, nil)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if a, err := c.Check(t.Context(), direct("k")); err == nil && a.Degraded != "" {
					t.Errorf("got %+v; Close is no outage", a)
				} else if err != nil && !errors.Is(err, ErrClosed) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		c.Close()
		close(gate)
		wg.Wait()
	})
}
