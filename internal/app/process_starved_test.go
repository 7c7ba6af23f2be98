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

// starvedNode is a node that the system runs for 25 of every 500 ms, beside a Redis that is well. No breaker opens. The
// store timeout is long, because on a busy machine Redis itself is not run for a while.
func starvedNode(t *testing.T, bin string) {
	server := testenv.Redis(t)
	c := spawn(t, bin, "", "REDIS_URL="+server.URL(), "SLUICE_STORE_TIMEOUT=250ms")
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	defer callers.Wait()
	defer cancel()
	// Every stop makes the checks under way late. 32 are more than one of a hundred that fit into 25 ms.
	for i := range 32 {
		callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, _, _ = requestOnce(ctx, c.client, "POST", c.url+"/ratelimit/check",
					fmt.Sprintf(`{"key": "starved:%d:%d", "limit": 1000, "window_ms": 60000}`, i, n%10))
			}
		})
	}
	eventually(t, "Redis decides", func() bool {
		return c.metric(`sluice_objective_checks_total{result="met"}`) > 100
	})
	callers.Go(func() {
		for tick := time.NewTicker(500 * time.Millisecond); ctx.Err() == nil; {
			c.signal(syscall.SIGSTOP)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
			c.signal(syscall.SIGCONT)
			select {
			case <-time.After(25 * time.Millisecond):
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
	blamesNoRedis(t, c, server.Addr)
}

// blamesNoRedis fails if a node that lacks CPU has taken that for an outage of its Redis, which is well.
func blamesNoRedis(t *testing.T, c *child, addr string) {
	t.Helper()
	_, metrics, err := c.ask("GET", "/metrics", "")
	want := `sluice_breaker_opened_total{node="` + addr + `"} 0` + "\n"
	if err != nil || !strings.Contains(metrics, want) {
		t.Errorf("the metrics lack %s, %v", want, err)
	}
	if _, incidents, err := c.ask("GET", "/ratelimit/incidents", ""); err != nil ||
		strings.Contains(incidents, `"kind":"breaker"`) {
		t.Errorf("an incident of the breaker: %s, %v", incidents, err)
	}
	if strings.Contains(c.log.String(), "circuit breaker") {
		t.Error("the log has a line about the breaker")
	}
}
