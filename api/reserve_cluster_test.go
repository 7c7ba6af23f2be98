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

// A grant charges the slots of a cluster together: as many as all have left, or none.
func TestGrant_AcrossTheSlotsOfACluster(t *testing.T) {
	all := fixedMinute("everyone", 1000)
	all.Scope = "global"
	f := pooled(t, "memory", nil, []rules.Rule{fixedMinute("per-user", 400), all}, sealing)
	f.store.Store = at(t, testenv.SharedCluster(t).URL(), f.now.Load)
	var mu sync.Mutex
	granted, spent := map[string]int64{}, int64(0)
	var wg sync.WaitGroup
	for u := range 4 {
		user := fmt.Sprint("g", u)
		for range 4 {
			wg.Go(func() {
				for range 6 {
					q := decide.Question{Descriptor: match.Descriptor{User: user}, Weight: 1, Times: 150, Least: 1}
					var a decide.Answer
					if err := f.checker.Reserve(t.Context(), &q, 60_000, &a); err != nil {
						t.Error(err)
						return
					}
					if a.Granted == 0 || a.SpendWithin == 0 {
						continue
					}
					used := a.Granted / 2
					if err := f.checker.SettleReservation(t.Context(), &decide.Settlement{Reservation: a.Reservation, Weight: used},
						&a); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					granted[user] += used
					spent += used
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	left := int64(0)
	for user, n := range granted {
		body := fmt.Sprintf(`{"user":%q}`, user)
		if got := f.left("per-user", body); n > 400 || got > 400-n {
			t.Errorf("%s has spent %d, and %d are left of 400", user, n, got)
		}
		left = f.left("everyone", body)
	}
	if spent > 1000 || left > 1000-spent || spent < 500 {
		t.Errorf("%d were spent, and %d are left of 1000", spent, left)
	}
}
