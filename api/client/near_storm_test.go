package client_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"sluice/api/client"
	"sluice/internal/playbook"
	"sluice/internal/testenv"
)

const leasedRules = `rules:
  - {name: all, scope: global, limit: 20000, window_ms: 3600000, algorithm: fixed_window, hot_keys: leased,
     fail_mode: closed}
  - {name: each, scope: user, limit: 8000, window_ms: 3600000, algorithm: fixed_window, hot_keys: leased,
     fail_mode: closed}
`

// Programs with many callers each, on two nodes with one Redis, some of which are killed: never over. Those that are
// killed lose what they hold, and a lease that is on its way to them.
func TestNear_StormOverTwoNodes(t *testing.T) {
	redis := testenv.Redis(t)
	var admitted, held atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		w := playbook.ServeOn(t, redis)
		if err := w.PutInForce([]byte(leasedRules)); err != nil {
			t.Fatal(err)
		}
		for program := range 3 {
			wg.Go(func() {
				for life := range 4 {
					c := newClient(t, w.URL(), client.Options{Token: w.Token(), FailMode: client.FailClosed})
					n := client.NewNear(c, client.NearOptions{})
					admitted.Add(ask(t, n, []string{"a", "b", "c"}[program], 8, 500))
					if life%2 == 0 {
						n.Kill()
						held.Add(n.Stats().Held)
					}
					c.Close()
					if st := n.Stats(); life%2 == 1 && st.Held != 0 {
						t.Errorf("after Close: %+v", st)
					}
				}
			})
		}
	}
	wg.Wait()
	if got := admitted.Load(); got > 20_000 || got < 20_000/2-held.Load() {
		t.Errorf("%d were admitted and %d held by those that were killed; the limit is 20,000", got, held.Load())
	}
	t.Logf("%d admitted, %d held by those that were killed", admitted.Load(), held.Load())
}

// ask asks about one user from several callers, so many times each, and returns how many were admitted.
func ask(t *testing.T, n *client.Near, user string, callers, each int) int64 {
	t.Helper()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				a, err := n.Check(t.Context(), client.Check{User: user})
				if err != nil || a.Degraded != "" {
					t.Errorf("got %+v, %v", a, err)
					return
				}
				if a.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return admitted.Load()
}
