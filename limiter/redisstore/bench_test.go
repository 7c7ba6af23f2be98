package redisstore_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

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

// cpuTime returns the processor time that Redis's one busy thread has had, µs.
// Unlike scriptTime it counts reading and answering too, and no waiting for a
// processor.
func cpuTime(b *testing.B, c redis.UniversalClient) float64 {
	info, err := c.Info(context.Background(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	var sum float64
	for line := range strings.SplitSeq(info, "\r\n") {
		name, v, _ := strings.Cut(line, ":")
		if name != "used_cpu_user_main_thread" && name != "used_cpu_sys_main_thread" {
			continue
		}
		s, err := strconv.ParseFloat(v, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += s * 1e6
	}
	return sum
}

// BenchmarkScript_BatchesOf50 reports what Redis spends per check in a call of
// 50 on a thousand keys, µs: in the script by the clock, and altogether in
// processor time.
func BenchmarkScript_BatchesOf50(b *testing.B) {
	for _, l := range limits(minute) {
		batchesOf50(b, l, l.Algorithm.String(), nil)
	}
	counter := limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 1_000_000, Window: minute}
	// Both admit everything: a denial would cost the one without a ban no write.
	batchesOf50(b, counter, "no ban", nil)
	batchesOf50(b, counter, "a ban", func(asks []limiter.Ask) []limiter.Ask {
		return append(asks, limiter.Ask{Key: limiter.BanKey(asks[0].Key),
			Limit: limiter.BanLimit(20, 60_000, 600_000, 2, 86_400_000)})
	})
	former := limiter.Limit{Algorithm: limiter.TokenBucket, Count: 100, Window: minute, Burst: 100}
	batchesOf50(b, counter, "a former limit", func(asks []limiter.Ask) []limiter.Ask {
		asks[0].Former = &former
		return asks
	})
}

func batchesOf50(b *testing.B, l limiter.Limit, name string, with func([]limiter.Ask) []limiter.Ask) {
	b.Run(name, func(b *testing.B) {
		c := client(b, testenv.Redis(b).URL())
		s := open(b, c, redisstore.Options{})
		calls := make([]limiter.Call, 50)
		before, cpu, n := scriptTime(b, c), cpuTime(b, c), 0
		for b.Loop() {
			for i := range calls {
				n++
				calls[i].Request = limiter.Request{Asks: []limiter.Ask{
					{Key: limiter.Key(fmt.Sprintf("{user:%d}|17|%s", n%10_000, l.Algorithm.Kind())), Limit: l, Weight: 1}}}
				if l.Algorithm == limiter.Concurrency {
					calls[i].Request.ID = strconv.Itoa(n % 100_000)
				}
				if with != nil {
					calls[i].Request.Asks = with(calls[i].Request.Asks)
				}
			}
			s.DoAll(context.Background(), calls)
			if calls[0].Err != nil {
				b.Fatal(calls[0].Err)
			}
		}
		b.ReportMetric((scriptTime(b, c)-before)/float64(n), "redis-µs/check")
		b.ReportMetric((cpuTime(b, c)-cpu)/float64(n), "redis-cpu-µs/check")
	})
}

// BenchmarkScript_Calls reports what the script takes for a call of so many
// requests of so many limits each, µs, on a thousand entities.
func BenchmarkScript_Calls(b *testing.B) {
	l := limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 1_000_000, Window: minute}
	for _, shape := range []struct{ requests, asks int }{{1, 1}, {20, 1}, {50, 1}, {1, 3}, {20, 3}} {
		b.Run(fmt.Sprintf("%dx%d", shape.requests, shape.asks), func(b *testing.B) {
			c := client(b, testenv.Redis(b).URL())
			s := open(b, c, redisstore.Options{})
			calls := make([]limiter.Call, shape.requests)
			before, n := scriptTime(b, c), 0
			for b.Loop() {
				for i := range calls {
					n++
					calls[i].Request = limiter.Request{}
					for rule := range shape.asks {
						calls[i].Request.Asks = append(calls[i].Request.Asks, ask(fmt.Sprintf("user:%d", n%1000), rule, l))
					}
				}
				s.DoAll(context.Background(), calls)
				if calls[0].Err != nil {
					b.Fatal(calls[0].Err)
				}
			}
			b.ReportMetric((scriptTime(b, c)-before)/float64(b.N), "redis-µs/call")
		})
	}
}

// benchKeys is how many keys BenchmarkMemory makes: SLUICE_BENCH_KEYS, or a
// hundred thousand.
func benchKeys(b *testing.B) int {
	v := os.Getenv("SLUICE_BENCH_KEYS")
	if v == "" {
		return 100_000
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		b.Fatalf("SLUICE_BENCH_KEYS is %q, want a number", v)
	}
	return n
}

// BenchmarkMemory reports the whole cost of a bucket, with its table entries, in
// bytes a key over many keys of one request each, under packed and plain names.
// Users are called as by eight digits of a hash, the rule has four digits.
func BenchmarkMemory(b *testing.B) {
	keys := benchKeys(b)
	for _, l := range limits(minute) {
		for _, plain := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/plain=%v", l.Algorithm, plain), func(b *testing.B) {
				c := client(b, testenv.Redis(b).URL())
				s := open(b, c, redisstore.Options{PlainKeys: plain, MaxWait: 10 * time.Second})
				l.Window = 60 * minute // so that the first key is there when the last comes
				if l.Algorithm == limiter.FixedWindow {
					l.Align = limiter.AlignFirstHit // an hour from now, not to the full hour
				}
				before := usedMemory(b, c)
				calls := make([]limiter.Call, 1000)
				for b.Loop() {
					for n := 0; n < keys; n += len(calls) {
						for i := range calls {
							user := uint32(n+i) * 2_654_435_761 // distinct, and looks random
							calls[i].Request = limiter.Request{Asks: []limiter.Ask{
								{Key: limiter.Key(fmt.Sprintf("{user:%08x}|1234|%s", user, l.Algorithm.Kind())), Limit: l, Weight: 1}}}
							if l.Algorithm == limiter.Concurrency {
								calls[i].Request.ID = "x"
							}
						}
						s.DoAll(context.Background(), calls)
						if calls[0].Err != nil {
							b.Fatal(calls[0].Err)
						}
					}
				}
				b.ReportMetric((usedMemory(b, c)-before)/float64(keys), "bytes/key")
			})
		}
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
		{"60 sub-windows", limiter.Limit{Algorithm: limiter.SlidingWindowBuckets, Count: 100_000, Window: minute,
			Buckets: 60}, 60, 1000},
		{"log of 100", limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 100, Window: minute}, 100, 97},
		{"log of 500", limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 500, Window: minute}, 500, 97},
	}
	for _, tt := range tests {
		b.Run(tt.name, func(b *testing.B) {
			clock := storetest.NewClock(1_760_000_000_000)
			c := client(b, testenv.Redis(b).URL())
			s := open(b, c, redisstore.Options{Clock: clock.Now, PlainKeys: true})
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

// BenchmarkScript_Log reports what the script takes for a take of 1 that a log of so many entries admits, dropping one
// that has expired, and for one that it denies because the limit was lowered to nine, µs.
func BenchmarkScript_Log(b *testing.B) {
	for _, held := range []int64{1, 10, 100, 1000, 60_000} {
		clock := storetest.NewClock(1_760_000_000_000)
		c := client(b, testenv.Redis(b).URL())
		s := open(b, c, redisstore.Options{Clock: clock.Now})
		a := ask(entity(), 1, limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: held, Window: held})
		for range held {
			take(b, s, "", a)
			clock.Advance(1)
		}
		run := func(name string, step, most int64, allowed bool) {
			a.Limit.Count = most
			b.Run(fmt.Sprintf("%s/%d", name, held), func(b *testing.B) {
				before, n := scriptTime(b, c), 0
				for b.Loop() {
					if take(b, s, "", a).Allowed != allowed {
						b.Fatal("not as expected")
					}
					clock.Advance(step)
					n++
				}
				b.ReportMetric((scriptTime(b, c)-before)/float64(n), "redis-µs/check")
			})
		}
		run("take", 1, held, true)
		clock.Advance(-1)
		run("denial", 0, min(9, held-1), false)
	}
}
