package nearstore

import (
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// On a cluster the parts of a sharded bucket live in different slots, and what
// concerns all of them is still carried out as one.
func TestShard_OnAClusterThePartsAddUp(t *testing.T) {
	client, err := redisstore.NewClient(testenv.SharedCluster(t).URL(),
		redisstore.ClientOptions{DialTimeout: 10 * time.Second, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	inner, err := redisstore.New(redisstore.Options{Client: client, MaxWait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inner.Close() })
	s := open(t, inner, Options{DenyCache: 1000, HotRate: 10})
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 400, Window: limiter.MaxWindow}
	ask := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotSharded}
	remaining := func() int64 { return send(t, s, limiter.OpPeek, "", ask).Limits[0].Remaining }
	charge := ask
	charge.Weight = 100
	send(t, s, limiter.OpCharge, "", charge)
	if got := remaining(); got != 300 {
		t.Errorf("%d remain after a charge of 100, want 300", got)
	}
	passed := 0
	for range 500 {
		if take(t, s, ask).Allowed {
			passed++
		}
	}
	if passed != 300 || remaining() != 0 {
		t.Errorf("%d passed, %d remain; want 300 and none", passed, remaining())
	}
	send(t, s, limiter.OpReset, "", ask)
	if got := remaining(); got != 400 {
		t.Errorf("%d remain after a reset, want 400", got)
	}
}
