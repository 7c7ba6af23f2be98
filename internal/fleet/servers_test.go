package fleet_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/limiter/redisstore"
)

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
