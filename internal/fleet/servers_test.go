package fleet_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter/redisstore"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// clock is a time that only tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 11, 21, 10, 59, 50, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// client connects to a server or a cluster until the test ends.
func client(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	c, err := redisstore.NewClient(url, redisstore.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var prefixes atomic.Int64

// ownPrefix is a prefix of keys that no other test has.
func ownPrefix() string { return fmt.Sprintf("sl:%d:", prefixes.Add(1)) }

// eventually waits until something has happened.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-limit.C:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}
