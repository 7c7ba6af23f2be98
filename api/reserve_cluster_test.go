package api

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"sluice/api/decide"
	"sluice/internal/testenv"
	"sluice/rules"
	"sluice/rules/match"
)

// On a cluster the limits of one request live in different slots; a settlement
// reaches them all, once, whoever else is busy there.
func TestReserve_SettlesAcrossTheSlotsOfACluster(t *testing.T) {
	all := aMinute("everyone", 100_000)
	all.Scope = "global"
	perIP := aMinute("per-ip", 10_000)
	perIP.Scope = "ip"
	f := pooled(t, "memory", nil, []rules.Rule{aMinute("per-user", 1000), perIP, all}, sealing)
	f.store.Store = at(t, testenv.SharedCluster(t).URL(), f.now.Load)
	const users = 8
	var wg sync.WaitGroup
	for u := range users {
		wg.Go(func() {
			for n := range 5 {
				q := decide.Question{Descriptor: match.Descriptor{User: fmt.Sprint("u", u), IP: netip.MustParseAddr("203.0.113.7")},
					Weight: 100}
				var a decide.Answer
				if err := f.checker.Reserve(t.Context(), &q, 60_000, &a); err != nil || a.Reservation == "" {
					t.Errorf("reserve: %v, %+v", err, a)
					return
				}
				want := decide.Settlement{Reservation: a.Reservation, Weight: int64(50 * n)}
				for range 2 { // the second counts nothing
					if err := f.checker.SettleReservation(t.Context(), &want, &a); err != nil || !a.Allowed() || len(a.Limits) != 3 {
						t.Errorf("settle: %v, %+v", err, a)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	const each = 50 * (0 + 1 + 2 + 3 + 4)
	for u := range users {
		body := fmt.Sprintf(`{"user":"u%d","ip":"203.0.113.7"}`, u)
		if got := f.left("per-user", body); got != 1000-each {
			t.Errorf("user %d has %d left, want %d", u, got, 1000-each)
		}
	}
	const body = `{"user":"u0","ip":"203.0.113.7"}`
	if ip, everyone := f.left("per-ip", body), f.left("everyone", body); ip != 10_000-users*each ||
		everyone != 100_000-users*each {
		t.Errorf("%d and %d left, want %d and %d", ip, everyone, 10_000-users*each, 100_000-users*each)
	}
}
