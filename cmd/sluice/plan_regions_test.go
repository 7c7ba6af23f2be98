package main

import (
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/capacity"
	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
)

// expiryBytes is what the expiry of a key takes in Redis beside what MEMORY USAGE counts, bytes.
const expiryBytes = 40

// Of each algorithm a full bucket that this region has spent in, and two others too, takes what a plan for three
// regions says.
func TestPlan_KnowsWhatBucketsThatSpanRegionsTake(t *testing.T) {
	server := testenv.Redis(t)
	c := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = c.Close() })
	clock := storetest.NewClock(1_760_000_000_000)
	s, err := redisstore.New(redisstore.Options{Client: c, Clock: clock.Now, MaxWait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	do := func(req limiter.Request) {
		t.Helper()
		var res limiter.Result
		if err := s.Do(t.Context(), &req, &res); err != nil {
			t.Fatal(err)
		}
	}
	// memory is that of all keys, the set of changed buckets aside, which is empty.
	memory := func() (bytes float64) {
		t.Helper()
		keys, err := c.Keys(t.Context(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			n, err := c.MemoryUsage(t.Context(), key).Result()
			if err != nil {
				t.Fatal(err)
			}
			bytes += float64(n) + expiryBytes
		}
		return bytes
	}
	for _, a := range limiter.Algorithms() {
		if !a.Traits().Spans() {
			continue
		}
		if err := c.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		ask := limiter.Ask{Key: limiter.Key("{user:8f14e45f}|1234|" + a.Traits().Kind), Weight: 1, Spans: true,
			Limit: limiter.Limit{Algorithm: a, Count: 100, Window: 60_000}}
		takes, step := 1, int64(0)
		switch a.Traits().Setting {
		case limiter.SettingBurst:
			ask.Limit.Burst = 100
		case limiter.SettingBuckets:
			ask.Limit.Buckets, takes, step = 60, 60, 1000
		}
		if a == limiter.SlidingWindowLog {
			takes, step = 100, 97
		}
		for range takes {
			do(limiter.Request{Asks: []limiter.Ask{ask}})
			clock.Advance(step)
		}
		sums, err := s.Export(t.Context(), 10, time.Hour)
		if err != nil || len(sums) != 1 {
			t.Fatalf("%s: %d exported, %v", a, len(sums), err)
		}
		if err := s.Confirm(t.Context(), sums); err != nil {
			t.Fatal(err)
		}
		for _, region := range []string{"us", "asia"} {
			do(limiter.Request{Op: limiter.OpApply, ID: region, Sums: &sums[0].Sums,
				Asks: []limiter.Ask{{Key: ask.Key, Limit: ask.Limit, Spans: true}}})
		}
		got := memory()
		p, err := capacity.Measured.Make(
			capacity.Load{PerSecond: 1, Keys: 1, Rules: 1, Algorithm: a.String(),
				Regions: &capacity.Regions{Count: 3, Span: capacity.SpanGlobal, DelayMS: 80, WindowMS: 60_000}}, capacity.Sizing{})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(p.KeyBytes-got) > 0.15*got {
			t.Errorf("%s: the plan says %.0f bytes, Redis %.0f", a, p.KeyBytes, got)
		}
	}
}
