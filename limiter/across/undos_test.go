package across

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/limiter"
)

// undosOf starts Undos with pauses of 1 to 4 s that undo again for 10 s. send answers each and sees its name.
func undosOf(send func(name string) Answer) *Undos[string] {
	return NewUndos(UndoOptions[string]{Most: 3, Batch: 10, First: time.Second, Last: 4 * time.Second, Life: time.Minute,
		Sure: 10 * time.Second, Now: time.Now,
		Of: func(p *Part) (int, string) { return p.Place, fmt.Sprint(string(p.Request.Asks[0].Key)) },
		Send: func(_ int, us []string) []Answer {
			answers := make([]Answer, len(us))
			for i, u := range us {
				answers[i] = send(u)
			}
			return answers
		}})
}

// failed is a request whose take at one place, of a limit of 3, may have been carried out. If it certainly was, another
// place has denied.
func failed(sure bool) *Request {
	r := threePlaces()
	lost := &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: true, Err: errCut}
	r.answers(func(count int64, s Step) error {
		switch {
		case s == Ask && !sure:
			return lost
		case count == 900:
			return errDenied
		}
		return nil
	})
	r.answers(func(int64, Step) error { return lost })
	return r
}

func wantUndos(t *testing.T, u *Undos[string], undone, pending, lost int64) {
	t.Helper()
	synctest.Wait()
	if d, p, l := u.Stats(); d != undone || p != pending || l != lost {
		t.Errorf("%d undone, %d pending, %d lost, want %d, %d and %d", d, p, l, undone, pending, lost)
	}
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}

// A take that may still be on its way is undone again, because it may be carried out late.
func TestUndos_ATakeThatMayComeLateIsUndoneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var began time.Time
		var held int64
		var tried []time.Duration
		set := func(units int64) {
			mu.Lock()
			defer mu.Unlock()
			held = units
		}
		keep := func(u *Undos[string]) {
			mu.Lock()
			began, tried = time.Now(), nil
			mu.Unlock()
			u.Keep(failed(false), time.Now())
		}
		wantTried := func(want ...time.Duration) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(tried, want) {
				t.Errorf("tried after %v, want %v", tried, want)
			}
		}
		u := undosOf(func(string) Answer {
			mu.Lock()
			defer mu.Unlock()
			tried = append(tried, time.Since(began))
			given := held
			held = 0
			return Answer{Result: &limiter.Result{Limits: []limiter.Decision{{Refunded: given}}}}
		})
		defer u.Close(t.Context())
		keep(u)
		pass(20 * time.Second)
		wantTried(time.Second, 3*time.Second, 7*time.Second, 11*time.Second)
		wantUndos(t, u, 0, 0, 0) // it never came
		keep(u)
		pass(2 * time.Second)
		set(1)
		wantUndos(t, u, 0, 1, 0)
		pass(20 * time.Second)
		wantTried(time.Second, 3*time.Second) // until it had come
		wantUndos(t, u, 1, 0, 0)
	})
}

func TestUndos_WhatWasCertainlyTakenIsUndoneAtOnceAndUntilThatIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		u := undosOf(func(name string) Answer {
			if name != "{c}" {
				t.Errorf("%s is undone, which took nothing", name)
			}
			if tries.Add(1) < 3 {
				return Answer{Err: errCut}
			}
			return Answer{Result: &limiter.Result{Limits: []limiter.Decision{{Refunded: 1}}}}
		})
		defer u.Close(t.Context())
		u.Keep(failed(true), time.Now())
		wantUndos(t, u, 0, 1, 0)
		if tries.Load() != 1 {
			t.Errorf("%d tries at once, want 1", tries.Load())
		}
		pass(3 * time.Second)
		wantUndos(t, u, 1, 0, 0)
	})
}

// Another attempt may rely on what was taken, or its window is over: then nothing is given back, now or later. What a
// bucket that drains gives back may be less than a unit.
func TestUndos_CountWhatWasGivenBack(t *testing.T) {
	drains := failed(true)
	drains.Parts[0].Request.Asks[0].Limit.Algorithm = limiter.TokenBucket
	synctest.Test(t, func(t *testing.T) {
		answer := Answer{Result: &limiter.Result{Limits: make([]limiter.Decision, 1)}}
		u := undosOf(func(string) Answer { return answer })
		defer u.Close(t.Context())
		for _, given := range []int64{0, 1} {
			answer.Result.Limits[0].Refunded = given
			u.Keep(failed(true), time.Now()) // its undo is not confirmed at once
			wantUndos(t, u, given, 0, 0)
			r := threePlaces()
			r.answers(deny(50))
			for _, p := range r.round {
				p.Got = answer
			}
			r.advance()
			u.Keep(r, time.Now())
			wantUndos(t, u, 2*given, 0, 0)
		}
		answer.Result.Limits[0].Refunded = 0
		u.Keep(drains, time.Now())
		wantUndos(t, u, 3, 0, 0)
	})
}

// A denial says that nothing is charged, which is not certain once an undo is lost.
func TestUndos_ARequestWhoseUndoIsLostMayHaveBeenApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := undosOf(func(string) Answer { return Answer{Err: errCut} })
		for i := range 4 {
			r := failed(true)
			u.Keep(r, time.Now())
			var se *limiter.StoreError
			err := r.Answer(&limiter.Result{})
			if lost := errors.As(err, &se) && se.Unknown; lost != (i == 3) {
				t.Errorf("request %d with room for 3: %v", i, err)
			}
		}
		wantUndos(t, u, 0, 3, 1)
		u.Close(t.Context())
		wantUndos(t, u, 0, 0, 4)
	})
}
