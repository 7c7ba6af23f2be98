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
func asking(t *testing.T, check func(context.Context, Check) (*Answer, error), users, seconds int) (allowed,
	denied int64) {
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

// What is denied in memory reaches the statistics within about a second, also if nobody asks any more, and for the rule
// that denied it.
func TestNear_DenialsReachTheStatistics(t *testing.T) {
	for _, rate := range []int{30, 500, 5000} {
		synctest.Test(t, func(t *testing.T) {
			s := newNearService(t, leasedRule("all", "global", "fixed_window", 1_000_000, 3_600_000),
				leasedRule("each", "user", "fixed_window", 50, 3_600_000))
			s.set(func(string) fault { return fault{before: time.Millisecond, after: time.Millisecond} })
			_, n := s.client(Options{})
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() { admitted.Add(sum(steady(t, n, user(fmt.Sprint(i)), rate, 3))) })
			}
			wg.Wait()
			<-time.After(1100 * time.Millisecond)
			want := int64(3*3*rate) - admitted.Load()
			if got := s.units.denied.Load(); got != want || admitted.Load() != 150 || s.units.allowed.Load() != 150 {
				t.Errorf("%d a second: %d allowed and %d denied, and %d and %d are in the statistics", rate,
					admitted.Load(), want, s.units.allowed.Load(), got)
			}
			if got := s.units.deniedBy("each"); got != want {
				t.Errorf("%d a second: %d of %d denied by the rule that denies", rate, got, want)
			}
			if calls := s.calls.Load(); calls > 120 {
				t.Errorf("%d a second: %d calls", rate, calls)
			}
		})
	}
}

// More denials than one settlement takes are reported by several.
func TestNear_ReportsAnyNumberOfDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNearService(t, leasedRule("a", "user", "fixed_window", 10, 3_600_000))
		_, n := s.client(Options{})
		admitted := sum(steady(t, n, user("42"), 100, 1))
		n.table.all()[0].denied.Add(2_500_000)
		n.Close()
		if got := s.units.denied.Load(); got != 2_500_000+100-admitted {
			t.Errorf("%d are reported", got)
		}
	})
}

// While the service is unavailable nothing is decided that it does not learn of later: leases are settled and denials
// reported once it answers again.
func TestNear_ReportsAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNearService(t, leasedRule("a", "user", "fixed_window", 1000, 3_600_000))
		_, n := s.client(Options{})
		var allowed, denied int64
		ask := func(name string) {
			for range 2000 {
				<-time.After(time.Millisecond)
				a, err := n.Check(context.Background(), user(name))
				switch {
				case err != nil:
					t.Fatal(err)
				case a.Degraded != "":
				case a.Allowed:
					allowed++
				default:
					denied++
				}
			}
		}
		ask("42")
		for i := range 2 {
			s.set(func(string) fault { return fault{lost: true} })
			ask(fmt.Sprint(i))
			s.set(nil)
			ask(fmt.Sprint(i))
			<-time.After(1500 * time.Millisecond)
			if got := s.units.allowed.Load(); got != allowed {
				t.Errorf("%d were allowed, and %d are in the statistics", allowed, got)
			}
			if got := s.units.denied.Load(); got != denied {
				t.Errorf("%d were denied, and %d are in the statistics", denied, got)
			}
		}
	})
}

// A sliding window of a few requests a second is used as much as if each request were asked, with no more calls.
func TestNear_SmallSlidingWindowsAreUsed(t *testing.T) {
	for i := range 8 {
		limit, rate := []int64{3, 10, 20, 50}[i/2], []int{60, 400}[i%2]
		var admitted, calls [2]int64
		for i := range admitted {
			synctest.Test(t, func(t *testing.T) {
				s := newNearService(t, leasedRule("a", "user", "sliding_window_counter", limit, second))
				s.set(func(string) fault { return fault{before: 300 * time.Microsecond, after: 300 * time.Microsecond} })
				_, n := s.client(Options{})
				q := user("42")
				if i == 1 {
					q.Dialect = "openai" // is asked each time
				}
				admitted[i] = sum(steady(t, n, q, rate, 20))
				calls[i] = s.calls.Load()
			})
		}
		if near, asked := admitted[0], admitted[1]; near*100 < asked*98 {
			t.Errorf("%d of %d: %d were admitted, and %d if each is asked", limit, rate, near, asked)
		}
		if calls[0] > calls[1] {
			t.Errorf("%d of %d: %d calls, and %d if each is asked", limit, rate, calls[0], calls[1])
		}
	}
}
