package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// overloaded refuses every call with more than most checks, as a service without a place for them does.
func overloaded(most int) func(fakeCall) *failure {
	return func(c fakeCall) *failure {
		if len(c.bodies) <= most {
			return nil
		}
		return &failure{status: 503, body: `{"type":"/problems/overloaded","title":"Node overloaded","status":503}`}
	}
}

// decided fails the test unless each key was in one call that was not refused, and at most 100 in each.
func decided(t *testing.T, f *fake, keys int) {
	t.Helper()
	times := map[string]int{}
	for _, call := range f.seen() {
		if overloaded(100)(call) != nil {
			continue
		}
		for _, b := range call.bodies {
			times[b]++
		}
	}
	for b, n := range times {
		if n != 1 {
			t.Errorf("%s was decided %d times", b, n)
		}
	}
	if len(times) != keys {
		t.Errorf("%d different checks were decided, want %d", len(times), keys)
	}
}

// denied reports whether an answer is the denial of an overloaded service.
func denied(a *Answer) bool {
	return !a.Allowed && a.Overloaded && a.Status == http.StatusServiceUnavailable && a.Degraded == "" && !a.ByClient &&
		a.Headers["Retry-After"] == "1" && strings.Contains(string(a.Body), "temporary-reduced-capacity")
}

// keys returns n direct checks, k0 to k(n-1).
func keys(n int) []Check {
	out := make([]Check, n)
	for i := range out {
		out[i] = direct(fmt.Sprintf("k%d", i))
	}
	return out
}

func neverDegraded(t *testing.T) func(error) {
	return func(err error) { t.Errorf("the fail mode decided: %v", err) }
}

func TestOverload_GatheredChecksAreSentAgainInSmallCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newFake(t, Options{Timeout: long, OnDegraded: neverDegraded(t)})
		gate := make(chan struct{})
		f.set(gate, overloaded(100))
		wait := ask(t, c, 700)
		close(gate)
		wait()
		decided(t, f, 700)
		if c.breaker.failures != 0 {
			t.Errorf("overload counts as %d failures", c.breaker.failures)
		}
	})
}

func TestOverload_BatchIsSentAgainInSmallCalls(t *testing.T) {
	for name, tt := range map[string]struct {
		checks, padding int
	}{"many checks": {1000, 0}, "many bytes": {90, 1000}} {
		t.Run(name, func(t *testing.T) {
			c, f := newFake(t, Options{Timeout: long, OnDegraded: neverDegraded(t)})
			first := true
			f.set(nil, func(call fakeCall) *failure {
				defer func() { first = false }()
				if first {
					return overloaded(0)(call)
				}
				if size := len(strings.Join(call.bodies, ",")); size > 64<<10 {
					t.Errorf("a call of %d bytes", size)
				}
				return overloaded(100)(call)
			})
			checks := keys(tt.checks)
			for i := range checks {
				checks[i].Key += strings.Repeat("x", tt.padding)
			}
			answers, err := c.Batch(t.Context(), checks)
			if err != nil || len(answers) != len(checks) {
				t.Fatalf("%d answers, %v", len(answers), err)
			}
			for i, a := range answers {
				if !a.Allowed || a.Limits[0].Key != checks[i].Key {
					t.Errorf("check %d got %+v", i, a)
				}
			}
		})
	}
}

// A service that stays overloaded is no outage: what it does not decide is denied, and the breaker stays closed.
func TestOverload_ThatLastsDenies(t *testing.T) {
	c, f := newFake(t, Options{Timeout: long, FailMode: FailOpen, OnDegraded: neverDegraded(t)})
	f.set(nil, overloaded(0))
	for range failuresToOpen + 1 {
		if a, err := c.Check(t.Context(), direct("k")); err != nil || !denied(a) {
			t.Errorf("a check got %+v, %v", a, err)
		}
		if a, err := c.Reserve(t.Context(), direct("k"), 0); err != nil || !denied(a) {
			t.Errorf("a reservation got %+v, %v", a, err)
		}
		answers, err := c.Batch(t.Context(), keys(250))
		if err != nil || len(answers) != 250 || slices.ContainsFunc(answers, func(a Answer) bool { return !denied(&a) }) {
			t.Errorf("a batch got %+v, %v", answers, err)
		}
		if _, err := c.Charge(t.Context(), direct("k")); !Overloaded(err) || !Unavailable(err) {
			t.Errorf("a charge got %v", err)
		}
	}
	f.set(nil, nil)
	if a, err := c.Check(t.Context(), direct("k")); err != nil || !a.Allowed || a.Overloaded {
		t.Errorf("after the overload a check got %+v, %v", a, err)
	}
}

// What was refused and not sent again in time is denied. What was sent and not answered in time is an outage.
func TestOverload_UntilTheTimeIsOverDenies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, f := newFake(t, Options{FailMode: FailOpen})
		gate := make(chan struct{})
		hangs := func(call fakeCall) *failure {
			if len(call.bodies) != 100 {
				return overloaded(100)(call)
			}
			<-time.After(2 * c.timeout)
			return &failure{err: context.DeadlineExceeded}
		}
		var mu sync.Mutex
		var passed, open, no int
		count := func(a *Answer) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case denied(a):
				no++
			case a.Allowed && a.ByClient && a.Degraded == FailOpen:
				open++
			case a.Allowed && a.Degraded == "":
				passed++
			default:
				t.Errorf("got %+v", a)
			}
		}
		f.set(nil, hangs)
		answers, err := c.Batch(t.Context(), keys(250))
		if err != nil {
			t.Fatal(err)
		}
		for i := range answers {
			count(&answers[i])
		}
		if passed != 0 || open != 100 || no != 150 {
			t.Errorf("of a batch %d passed, %d by the fail mode, %d were denied; want 0, 100, 150", passed, open, no)
		}

		passed, open, no = 0, 0, 0
		f.set(gate, hangs)
		var wg sync.WaitGroup
		for i := range 250 { // calls of 1, 1, 2 and 4 checks wait at the gate; the others gather behind them
			wg.Go(func() {
				a, err := c.Check(t.Context(), direct(fmt.Sprint("g", i)))
				if err != nil {
					t.Error(err)
					return
				}
				count(a)
			})
			synctest.Wait() // which of them share a call does not depend on how they are scheduled
		}
		close(gate)
		wg.Wait()
		if passed != 8 || open != 100 || no != 142 {
			t.Errorf("of gathered checks %d passed, %d by the fail mode, %d were denied; want 8, 100, 142",
				passed, open, no)
		}
	})
}

func TestOverload_InvalidCheckOfAPartIsNamed(t *testing.T) {
	c, f := newFake(t, Options{Timeout: long})
	f.set(nil, func(call fakeCall) *failure {
		if refused := overloaded(100)(call); refused != nil {
			return refused
		}
		return refuseBad(true)(call)
	})
	checks := keys(250)
	checks[217].Weight = new(int64(-1))
	_, err := c.Batch(t.Context(), checks)
	var p *Problem
	if !errors.As(err, &p) || p.Status != 422 || len(p.Errors) != 1 || p.Errors[0].Field != "checks[217].weight" {
		t.Errorf("got %v", err)
	}
}
