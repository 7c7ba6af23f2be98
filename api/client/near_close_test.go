package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A caller that has taken the next lease ends the last one after Close: what is left of it is lost.
func TestNear_CloseWhileACallerEndsALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNearService(t, leasedRule("a", "user", "fixed_window", 1_000_000, 3_600_000))
		_, n := s.client(Options{})
		steady(t, n, user("42"), 1000, 1)
		k := n.table.all()[0]
		old := k.lease.Swap(nil)
		n.Close()
		k.end(old)
		if st := addUp(t, n); st.Lost == 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Close ends while the service hangs. What could not be given back in time is lost. The client is not locked meanwhile.
func TestNear_CloseWhileTheServiceHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNearService(t, leasedRule("a", "user", "fixed_window", 1_000_000, 3_600_000))
		c, n := s.client(Options{Timeout: 100 * time.Millisecond})
		for i := range 50 {
			for range 2 * defaultNearRate {
				if _, err := n.Check(context.Background(), user(fmt.Sprint(i))); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.set(func(string) fault { return fault{after: time.Hour} })
		begin, closed := time.Now(), make(chan time.Duration, 1)
		go func() {
			c.Close()
			closed <- time.Since(begin)
		}()
		synctest.Wait()
		if !c.nearMu.TryLock() {
			t.Fatal("Close holds the lock of the client's Nears while it waits")
		}
		c.nearMu.Unlock()
		if took := <-closed; took > 1100*time.Millisecond { // CallTimeout, and a fill
			t.Errorf("Close took %v", took)
		}
		if st := addUp(t, n); st.Lost == 0 || st.Returned != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A client keeps no Near that is closed, and a Near of a closed client starts nothing, so that no goroutine is left.
func TestNear_OneThatIsClosedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNearService(t, leasedRule("a", "user", "fixed_window", 1000, 3_600_000))
		c, n := s.client(Options{})
		n.Close()
		if len(c.nears) != 0 {
			t.Errorf("the client keeps %d", len(c.nears))
		}
		c.Close()
		if _, err := NewNear(c, NearOptions{}).Check(t.Context(), user("42")); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

func TestNear_AContextThatHasEndedSpendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNearService(t, leasedRule("a", "user", "fixed_window", 1_000_000, 3_600_000))
		c, n := s.client(Options{})
		admitted := sum(steady(t, n, user("42"), 1000, 1))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if a, err := n.Check(ctx, user("42")); !errors.Is(err, context.Canceled) {
			t.Errorf("got %+v, %v", a, err)
		}
		n.Close()
		if used := s.used(c, user("42"))["a"]; used != admitted {
			t.Errorf("%d units count, want %d", used, admitted)
		}
	})
}

// Every allowed request is in the statistics, also if a window is too short for a lease.
func TestNear_AllowedRequestsAreCounted(t *testing.T) {
	for _, window := range []int64{5, 30, second} {
		synctest.Test(t, func(t *testing.T) {
			s := newNearService(t, leasedRule("a", "user", "fixed_window", 100, window))
			c, n := s.client(Options{})
			want := sum(steady(t, n, user("42"), 2000, 2))
			c.Close()
			if got := s.units.allowed.Load(); got != want {
				t.Errorf("windows of %d ms: %d were allowed, and %d are in the statistics", window, want, got)
			}
		})
	}
}
