package app

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/testenv"
)

func TestOutage_KilledUnderLoadEveryRequestIsAnsweredByItsFailMode(t *testing.T) {
	srv := testenv.Redis(t)
	n := start(t, onRedis(t, srv.URL()))
	n.modes(1_000_000)
	const clients = 20
	l := press(n, clients, 10*time.Millisecond, byMode) // 2,000 a second
	defer l.stop()
	eventually(t, "Redis decides", func() bool { return l.seen("store 200") > 500 })
	calm := runtime.NumGoroutine()
	srv.Kill()
	eventually(t, "the breaker opens", func() bool { return n.sum(`sluice_breaker_state\{.*\}`) == 2 })
	l.forget()
	eventually(t, "fail modes decide", func() bool {
		return l.seen("open 200") > 200 && l.seen("closed 503") > 200 && l.seen("local 200") > 200
	})
	if got := runtime.NumGoroutine(); got > calm+5*clients {
		t.Errorf("%d goroutines in the outage, %d before", got, calm)
	}
	if l.seen("store 200") > 0 || l.seen("open 503")+l.seen("closed 200")+l.seen("local 503") > 0 {
		t.Errorf("answers %v", l.count)
	}
	eventually(t, "every client is answered without Redis", l.everyone)
	count, p99, most := l.report()
	t.Logf("in the outage: %d answers, 99 %% within %s, all within %s", count, p99, most)
	if log := n.log.String(); strings.Count(log, "circuit breaker of a Redis server opened") != 1 ||
		!strings.Contains(log, "check that Redis is running") {
		t.Errorf("the log should tell once, with advice:\n%s", log)
	}

	srv.Restart()
	back := time.Now()
	eventually(t, "the breaker closes", func() bool { return n.sum(`sluice_breaker_state\{.*\}`) == 0 })
	closed := time.Since(back)
	l.forget()
	eventually(t, "Redis decides everything", func() bool { return l.seen("store 200") > 500 })
	l.stop()
	if open := l.seen("open 200") + l.seen("closed 503") + l.seen("local 200"); open > 20 {
		t.Errorf("%d degraded answers after the breaker closed: %v", open, l.count)
	}
	_, p99, _ = l.report()
	t.Logf("closed %s after Redis was back; then 99 %% within %s", closed.Round(time.Millisecond), p99)
	if clients := infoField(t, admin(t, srv).Info(context.Background(), "clients").Val(),
		"connected_clients"); clients > 8+2 {
		t.Errorf("%d connections", clients)
	}
}

func TestOutage_FrozenOrSlowTheDeadlineIsKept(t *testing.T) {
	srv := testenv.Redis(t)
	url, add, heal := through(t, srv.Addr)
	n := start(t, onRedis(t, url))
	n.modes(1_000_000)
	pause, resume := pauses(t, srv)
	// over twice the deadline
	const latency = `{"name":"slow","type":"latency","stream":"downstream","attributes":{"latency":600}}`
	tests := []struct {
		name        string
		begin, over func()
		gaps        bool // Redis may answer now and then
	}{
		{"frozen", srv.Pause, srv.Resume, false},
		{"too far away", func() { add(latency) }, heal, false},
		{"CLIENT PAUSE", pause, resume, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const clients = 50
			l := press(n, clients, 10*time.Millisecond, byMode)
			defer l.stop()
			eventually(t, "Redis decides", func() bool { return l.seen("store 200") > 100 })
			calm := runtime.NumGoroutine()
			tt.begin()
			defer tt.over()
			l.forget()
			// The outage lasts until the test ends it: who is answered did not wait for
			// Redis.
			eventually(t, "every client is answered without Redis", l.everyone)
			eventually(t, "the breaker opens", func() bool { return n.sum(`sluice_breaker_state\{.*\}`) == 2 })
			eventually(t, "fail modes decide", func() bool {
				return l.seen("open 200") > 500 && l.seen("closed 503") > 500 && l.seen("local 200") > 500
			})
			if got := runtime.NumGoroutine(); got > calm+5*clients {
				t.Errorf("%d goroutines in the outage, %d before", got, calm)
			}
			// What was under way when it began may have had its answer.
			if got := l.seen("store 200"); got > clients && !tt.gaps {
				t.Errorf("Redis decided %d requests of %d clients in the outage", got, clients)
			}
			count, p99, most := l.report()
			t.Logf("%d answers, 99 %% within %s, all within %s", count, p99, most)
			tt.over()
			eventually(t, "the breaker closes", func() bool { return n.sum(`sluice_breaker_state\{.*\}`) == 0 })
			l.forget()
			eventually(t, "Redis decides again", func() bool { return l.seen("store 200") > 500 })
		})
	}
}

// pauses gives what makes a server pause all its clients, and what ends that. A
// pause ends by itself and nothing else ends it, so one follows the other.
func pauses(t *testing.T, srv *testenv.RedisServer) (begin, end func()) {
	t.Helper()
	c := admin(t, srv)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	begin = func() {
		paused := make(chan struct{})
		wg.Go(func() {
			for first := true; ctx.Err() == nil; first = false {
				c.Do(ctx, "CLIENT", "PAUSE", "1000", "ALL")
				if first {
					close(paused)
				}
			}
		})
		<-paused
	}
	return begin, func() { cancel(); wg.Wait() }
}

// field is one number of INFO.
func infoField(t *testing.T, info, name string) int {
	t.Helper()
	n := -1
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			if _, err := fmt.Sscan(v, &n); err != nil {
				t.Error(err)
			}
		}
	}
	return n
}

func TestOutage_AFlushUnderLoadCostsAtMostOneLimitAKey(t *testing.T) {
	srv := testenv.Redis(t)
	cfg := onRedis(t, srv.URL())
	cfg.StoreTimeout = 10 * time.Second // what counts here is what is counted
	n := start(t, cfg)
	n.create(`{"name":"r","scope":"user","limit":50,"window_ms":86400000,"fail_mode":"closed"}`)
	l := press(n, 10, time.Millisecond, func(client, _ int) string { return fmt.Sprintf(`{"user":"u%d"}`, client) })
	defer l.stop()
	eventually(t, "limits are in use", func() bool { return l.seen("store 200") > 100 })
	if err := admin(t, srv).FlushAll(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "every limit is used up", func() bool { return l.seen("store 429") > 2000 })
	l.stop()
	if passed := l.seen("store 200"); passed > 10*2*50 || passed < 10*50 {
		t.Errorf("%d passed of 10 limits of 50 and one flush", passed)
	}
	if len(l.count) != 2 {
		t.Errorf("answers %v", l.count)
	}
	t.Logf("answers %v", l.count)
}

func TestOutage_RedisAppearsAndDecidesWithinASecond(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	srv.Kill()
	n := start(t, onRedis(t, srv.URL()))
	n.modes(1_000_000)
	l := press(n, 10, 10*time.Millisecond, byMode)
	defer l.stop()
	eventually(t, "the breaker opens and probes", func() bool {
		return n.sum(`sluice_breaker_state\{.*\}`) == 2 && l.seen("open 200") > 300
	})
	srv.Restart()
	back := time.Now()
	eventually(t, "the breaker closes", func() bool { return n.sum(`sluice_breaker_state\{.*\}`) == 0 })
	t.Logf("normal %s after Redis appeared", time.Since(back).Round(time.Millisecond))
	eventually(t, "the log tells", func() bool { return strings.Contains(n.log.String(), "its circuit breaker closed") })
	if got := n.sum(`sluice_degraded_total\{cause="connection",.*\}`); got == 0 {
		t.Error("nothing was counted as degraded by connection")
	}
}
