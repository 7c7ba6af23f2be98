package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A question that was asked too rarely to stay near reports what was denied here before it is forgotten.
func TestNear_AForgottenQuestionReportsItsDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNearService(t, leasedRule("a", "user", "fixed_window", 1000, 3_600_000))
		c, n := s.client(Options{})
		steady(t, n, user("42"), 40, 1)
		k := n.table.all()[0]
		k.leave()
		k.mu.Lock()
		k.gone = false
		k.mu.Unlock()
		// What was left of its leases is given back. Of a new one most is left.
		<-time.After(time.Duration(nearIdle))
		for range 3 {
			<-time.After(time.Duration(nearIdle) - 2*nearSweep)
			if a, err := n.Check(context.Background(), user("42")); err != nil || !a.Allowed {
				t.Fatalf("%+v, %v", a, err)
			}
		}
		look := user("42")
		look.Weight = new(int64(1000 - s.used(c, user("42"))["a"]))
		if a, err := c.Check(context.Background(), look); err != nil || !a.Allowed { // others use up the limit
			t.Fatalf("%+v, %v", a, err)
		}
		<-time.After(time.Duration(k.lease.Load().until - n.now()))
		before := s.units.denied.Load()
		const denied = 10
		for range denied {
			if a, err := n.Check(context.Background(), user("42")); err != nil || a.Allowed {
				t.Fatalf("%+v, %v", a, err)
			}
		}
		<-time.After(2 * time.Duration(nearForgotten))
		if got := s.units.denied.Load() - before; got != denied || len(n.table.all()) != 0 {
			t.Errorf("%d of %d denials are in the statistics", got, denied)
		}
	})
}
