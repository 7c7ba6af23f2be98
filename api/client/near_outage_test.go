package client

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Settlements that fail are repeated after a pause, also if there are more than one call carries: an outage costs no
// processor, and a service with too much to do is not asked again and again.
func TestNear_ManySettlementsWaitOutAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNearService(t, leasedRule("a", "user", "fixed_window", 1_000_000, 3_600_000))
		c, n := s.client(Options{})
		n.Close()
		const most = 100_000 // a loop without a pause ends here, because time stands still while it runs
		var looks atomic.Int64
		now := c.breaker.now
		c.breaker.now = func() time.Time {
			if looks.Add(1) == most {
				n.calls.cancel()
			}
			return now()
		}
		n = NewNear(c, NearOptions{})
		want := int64(0)
		for i := range 3 * maxNearItems {
			for range 2 * defaultNearRate {
				if a, err := n.Check(context.Background(), user(fmt.Sprint(i))); err != nil || !a.Allowed {
					t.Fatalf("%+v, %v", a, err)
				}
				want++
			}
		}
		s.set(func(string) fault { return fault{lost: true} })
		looks.Store(0)
		<-time.After(3 * time.Second) // every lease ends
		if got := looks.Load(); got >= most {
			t.Fatalf("it looked at the clock %d times", got)
		}
		s.set(nil)
		<-time.After(2 * time.Second)
		if got := s.units.allowed.Load(); got != want {
			t.Errorf("%d were allowed, and %d are in the statistics", want, got)
		}
		if st := addUp(t, n); st.Lost != 0 {
			t.Errorf("%+v", st)
		}
	})
}
