package app

import (
	"fmt"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
)

// An override lowers the limit of a key whose log has 9,000 entries, four times as many as a decision reads. The store
// decides its checks, and those of other keys.
func TestNode_AnOverrideOfAKeyWithALongLogIsDecidedByTheStore(t *testing.T) {
	t.Parallel()
	cfg := sharedSettings(t)
	n := start(t, cfg)
	rule := n.create(`{"name":"r","scope":"user","algorithm":"sliding_window_log","limit":100000,"window_ms":3600000}`)

	const held = 9_000
	clock := storetest.NewClock(time.Now().UnixMilli() - held)
	s, err := redisstore.New(redisstore.Options{Client: redisOf(t, &cfg), Prefix: cfg.KeyPrefix, Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	key := limiter.Key(fmt.Sprintf("{user:abuser}|%v|sl", rule["id"]))
	req := limiter.Request{Asks: []limiter.Ask{{Key: key, Weight: 1,
		Limit: limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 100_000, Window: 3_600_000}}}}
	var res limiter.Result
	for range held {
		if err := s.Do(t.Context(), &req, &res); err != nil || !res.Allowed {
			t.Fatal(res, err)
		}
		clock.Advance(1)
	}
	if d := n.check(`{"user":"abuser","weight":0}`); d["remaining"] != float64(100_000-held) {
		t.Fatalf("the node does not see the log: %v", d)
	}

	n.override(rule["id"], `{"key":"abuser","limit":10}`)
	eventually(t, "the override is in force", func() bool { return !n.allowed(`{"user":"abuser"}`) })
	for range 40 {
		d := n.check(`{"user":"abuser"}`)
		if d["allowed"] != false || d["limit"] != 10.0 || d["remaining"] != 0.0 || d["degraded"] != nil {
			t.Fatalf("got %v", d)
		}
		if wait, _ := d["retry_after_ms"].(float64); wait < 1 || wait > 3_600_000 {
			t.Fatalf("got %v", d)
		}
		if d := n.check(`{"user":"other"}`); d["allowed"] != true || d["degraded"] != nil {
			t.Fatalf("another key: %v", d)
		}
	}
}
