package fleet_test

import (
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
