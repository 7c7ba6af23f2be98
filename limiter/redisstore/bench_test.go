package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
)

// minute is a window as people use it, month one that no test run sees the end
// of; both in ms.
const (
	minute = 60_000
	month  = 3_000_000_000
)

// limits has a limit of 100 for every algorithm but the twins of token_bucket.
func limits(window int64) []limiter.Limit {
	return []limiter.Limit{
		{Algorithm: limiter.FixedWindow, Count: 100, Window: window},
		{Algorithm: limiter.SlidingWindowCounter, Count: 100, Window: window},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 100, Window: window, Buckets: 60},
		{Algorithm: limiter.SlidingWindowLog, Count: 100, Window: window},
		{Algorithm: limiter.TokenBucket, Count: 100, Window: window, Burst: 100},
		{Algorithm: limiter.GCRA, Count: 100, Window: window, Burst: 100},
		{Algorithm: limiter.LeakyQueue, Count: 100, Window: window, Burst: 100},
		{Algorithm: limiter.Concurrency, Count: 100, Window: window},
	}
}

// scriptTime returns the time Redis has spent in scripts, µs.
func scriptTime(b *testing.B, c redis.UniversalClient) float64 {
	info, err := c.Info(context.Background(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	var sum float64
	for line := range strings.SplitSeq(info, "\r\n") {
		if rest, ok := strings.CutPrefix(line, "cmdstat_eval"); ok {
			_, rest, _ = strings.Cut(rest, "usec=")
			usec, _, _ := strings.Cut(rest, ",")
			v, err := strconv.ParseFloat(usec, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// BenchmarkScript_BatchesOf50 reports what Redis spends per check in a call of
// 50 on a thousand keys, µs.
func BenchmarkScript_BatchesOf50(b *testing.B) {
	for _, l := range limits(minute) {
		b.Run(l.Algorithm.String(), func(b *testing.B) {
			c := client(b, testenv.Redis(b).URL())
			s := open(b, c, redisstore.Options{})
			calls := make([]limiter.Call, 50)
			before, n := scriptTime(b, c), 0
			for b.Loop() {
				for i := range calls {
					n++
					calls[i].Request = limiter.Request{Asks: []limiter.Ask{{Key: limiter.Key(fmt.Sprintf("{user:%d}|17|%s", n%1000, l.Algorithm.Kind())), Limit: l, Weight: 1}}}
					if l.Algorithm == limiter.Concurrency {
						calls[i].Request.ID = strconv.Itoa(n % 100_000)
					}
				}
				s.DoAll(context.Background(), calls)
				if calls[0].Err != nil {
					b.Fatal(calls[0].Err)
				}
			}
			b.ReportMetric((scriptTime(b, c)-before)/float64(n), "redis-µs/check")
		})
	}
}

// BenchmarkMemory reports the whole cost of a bucket, with its table entries, in
// bytes a key over a hundred thousand keys of one request each.
func BenchmarkMemory(b *testing.B) {
	const keys = 100_000
	for _, l := range limits(minute) {
		b.Run(l.Algorithm.String(), func(b *testing.B) {
			c := client(b, testenv.Redis(b).URL())
			s := open(b, c, redisstore.Options{})
			before := usedMemory(b, c)
			calls := make([]limiter.Call, keys)
			for b.Loop() {
				for i := range calls {
					calls[i].Request = limiter.Request{ID: "x", Op: limiter.OpTake, Asks: []limiter.Ask{{Key: limiter.Key(fmt.Sprintf("{user:%d}|17|%s", i, l.Algorithm.Kind())), Limit: l, Weight: 1}}}
					if l.Algorithm != limiter.Concurrency {
						calls[i].Request.ID = ""
					}
				}
				s.DoAll(context.Background(), calls)
			}
			b.ReportMetric((usedMemory(b, c)-before)/keys, "bytes/key")
		})
	}
}

func usedMemory(b *testing.B, c redis.UniversalClient) float64 {
	info, err := c.Info(context.Background(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	v, _, _ := strings.Cut(rest, "\r\n")
	f, err := strconv.ParseFloat(v, 64)
	if err != nil {
		b.Fatal(err)
	}
	return f
}

// BenchmarkStore_Do measures a check on an idle server, alone and crowded.
func BenchmarkStore_Do(b *testing.B) {
	s := open(b, client(b, testenv.Redis(b).URL()), redisstore.Options{})
	l := limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 100, Window: 60_000}
	one := func(b *testing.B, key string) {
		var res limiter.Result
		req := limiter.Request{Asks: []limiter.Ask{{Key: limiter.Key(key), Limit: l, Weight: 1}}}
		if err := s.Do(context.Background(), &req, &res); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			one(b, "{user:1}|17|sc")
		}
	})
	b.Run("crowded", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(64)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				one(b, "{user:1}|17|sc")
			}
		})
	})
}

// BenchmarkMemory_Full reports what Redis says a full bucket of the kinds that
// keep history takes, bytes.
func BenchmarkMemory_Full(b *testing.B) {
	tests := []struct {
		name    string
		limit   limiter.Limit
		entries int
		step    int64
	}{
		{"60 sub-windows", limiter.Limit{Algorithm: limiter.SlidingWindowBuckets, Count: 100_000, Window: minute, Buckets: 60}, 60, 1000},
		{"log of 100", limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 100, Window: minute}, 100, 97},
		{"log of 500", limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 500, Window: minute}, 500, 97},
	}
	for _, tt := range tests {
		b.Run(tt.name, func(b *testing.B) {
			clock := storetest.NewClock(1_760_000_000_000)
			c := client(b, testenv.Redis(b).URL())
			s := open(b, c, redisstore.Options{Clock: clock.Now})
			a := ask("user:42", 17, tt.limit)
			if tt.limit.Algorithm == limiter.SlidingWindowBuckets {
				a.Weight = 150
			}
			for b.Loop() {
				for range tt.entries {
					take(b, s, "", a)
					clock.Advance(tt.step)
				}
			}
			b.ReportMetric(float64(c.MemoryUsage(context.Background(), "sl:"+string(a.Key)).Val()), "bytes")
		})
	}
}
