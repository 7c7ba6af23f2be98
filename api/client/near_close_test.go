package client

import (
	"testing"
	"testing/synctest"
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
