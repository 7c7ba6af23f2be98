package app

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testenv"
)

// starvedNode is a node that the system runs for 5 of every 100 ms, beside a Redis that is well.
func starvedNode(t *testing.T, bin string) {
	server := testenv.Redis(t)
	c := spawn(t, bin, "", "REDIS_URL="+server.URL())
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	defer callers.Wait()
	defer cancel()
	for i := range 8 {
		callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, _, _ = requestOnce(ctx, c.client, "POST", c.url+"/ratelimit/check",
					fmt.Sprintf(`{"key": "starved:%d:%d", "limit": 1000, "window_ms": 60000}`, i, n%10))
			}
		})
	}
	callers.Go(func() {
		for tick := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; {
			c.signal(syscall.SIGSTOP)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
			c.signal(syscall.SIGCONT)
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	c.logged("this node lacks CPU: raise its CPU limit")
	eventually(t, "there is an incident and an alert about the node", func() bool {
		_, incidents, _ := c.ask("GET", "/ratelimit/incidents", "")
		_, metrics, _ := c.ask("GET", "/metrics", "")
		return strings.Contains(incidents, `"kind":"node_starved"`) &&
			strings.Contains(metrics, `sluice_alerts_active{kind="node_starved"} 1`)
	})
	if delay := c.metric("sluice_scheduling_delay_seconds"); delay < 0.05 || c.metric("sluice_starved_total") < 10 {
		t.Errorf("the scheduling delay is %g s, and %g checks were late", delay, c.metric("sluice_starved_total"))
	}
}
