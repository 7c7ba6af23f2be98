package client

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// asking asks about many users at the same time, each 20 to 100 times a second, and returns how many were allowed and
// denied.
func asking(t *testing.T, check func(context.Context, Check) (*Answer, error), users, seconds int) (allowed, denied int64) {
	t.Helper()
	var sums [2]atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range users {
		wg.Go(func() {
			rate := 20 + 80*i/users
			first := time.Duration(i*7919%1000) * time.Second / time.Duration(1000*rate)
			for k := range rate * seconds {
				<-time.After(time.Until(begin.Add(first + time.Duration(k)*time.Second/time.Duration(rate))))
				a, err := check(context.Background(), user(fmt.Sprint(i)))
				switch {
				case err != nil || a.Degraded != "":
					t.Errorf("%+v, %v", a, err)
					return
				case a.Allowed:
					sums[0].Add(1)
				default:
					sums[1].Add(1)
				}
			}
		})
	}
	wg.Wait()
	return sums[0].Load(), sums[1].Load()
}

// Thousands of questions that are asked 20 to 100 times a second cost fewer calls than with Client.Check, which shares
// calls too, and every decision reaches the statistics.
func TestNear_ManyQuestionsShareCalls(t *testing.T) {
	const users, seconds = 1000, 3
	var with, without int64
	for _, near := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newNearService(t, leasedRule("a", "user", "fixed_window", 40, second))
			s.set(func(string) fault { return fault{before: 300 * time.Microsecond, after: 300 * time.Microsecond} })
			c, n := s.client(Options{})
			if !near {
				asking(t, c.Check, users, seconds)
				without = s.calls.Load()
				return
			}
			allowed, denied := asking(t, n.Check, users, seconds)
			<-time.After(1100 * time.Millisecond)
			with = s.calls.Load()
			if got := [2]int64{s.units.allowed.Load(), s.units.denied.Load()}; got != [2]int64{allowed, denied} {
				t.Errorf("%d were allowed and %d denied, and %v are in the statistics", allowed, denied, got)
			}
			if st := n.Stats(); st.Spent*2 < allowed || denied == 0 {
				t.Errorf("%d allowed, %d denied: %+v", allowed, denied, st)
			}
		})
	}
	if with > without {
		t.Errorf("%d calls, and %d without Near", with, without)
	}
	t.Logf("%d calls, and %d without Near", with, without)
}
