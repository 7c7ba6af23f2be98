package script

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter"
)

// asLibrary is the script as a library of Redis Functions: what the main chunk
// uses is made once, in the first call, since a library sees no globals while it
// loads.
func asLibrary(b *testing.B, s Script) string {
	made, main, ok := strings.Cut(s.Source, "\nlocal m, keys")
	if !ok {
		b.Fatal("the main chunk does not begin as it did")
	}
	main = "local m, keys" + strings.Replace(main, "\nlocal long ", "\n", 1)
	return "#!lua name=sluice\nlocal run\nlocal function build()\n" + strings.TrimPrefix(made, "#!lua\n") +
		"\nlocal long\nreturn function(KEYS, ARGV)\ntest_life, lives = 0, {}\n" + main +
		"\nend\nend\nredis.register_function('sluice', function(keys, args) run = run or build() return run(keys, args) " +
		"end)\n"
}

// scriptTime returns the time Redis has spent in calls of a command, µs.
func scriptTime(b *testing.B, c *redis.Client, command string) float64 {
	info := c.Info(context.Background(), "commandstats").Val()
	_, rest, _ := strings.Cut(info, "cmdstat_"+command+":")
	_, rest, _ = strings.Cut(rest, "usec=")
	usec, _, _ := strings.Cut(rest, ",")
	v, err := strconv.ParseFloat(usec, 64)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// cpuTime returns the CPU time that Redis's main thread has used, µs.
func cpuTime(b *testing.B, c *redis.Client) (total float64) {
	for line := range strings.Lines(c.Info(context.Background(), "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user_main_thread" || name == "used_cpu_sys_main_thread" {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			total += v * 1e6
		}
	}
	return total
}

// BenchmarkScript_AsScriptAndAsLibrary reports what Redis takes for a call of so
// many plain takes of so many limits each, µs, over fifty entities: by EVALSHA, and
// as a Redis Function whose functions are made once. Decision 21 uses it.
func BenchmarkScript_AsScriptAndAsLibrary(b *testing.B) {
	c := redis.NewClient(&redis.Options{Addr: testenv.Redis(b).Addr, MaxRetries: -1, DisableIdentity: true})
	b.Cleanup(func() { _ = c.Close() })
	s, ctx := New(), context.Background()
	if err := c.FunctionLoad(ctx, asLibrary(b, s)).Err(); err != nil {
		b.Fatal(err)
	}
	if err := c.ScriptLoad(ctx, s.Source).Err(); err != nil {
		b.Fatal(err)
	}
	names := Names{Prefix: "sl:", Bucket: func(k limiter.Key) string { return "sl:" + string(k) }}
	l := limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 1_000_000, Window: 60_000}
	call := func(requests, asks, entity int) (keys []string, arg []byte) {
		var rs []*Request
		for i := range requests {
			req := limiter.Request{}
			for rule := range asks {
				key := limiter.Key(fmt.Sprintf("{user:%d}|%d|sc", (entity+i)%50, rule))
				req.Asks = append(req.Asks, limiter.Ask{Key: key, Limit: l, Weight: 1})
			}
			rs = append(rs, &Request{})
			rs[i].Encode(&names, &req)
		}
		return Encode(rs, nil)
	}
	for _, shape := range []struct{ requests, asks int }{{1, 1}, {1, 3}, {50, 1}} {
		for _, command := range []string{"evalsha", "fcall"} {
			b.Run(fmt.Sprintf("%dx%d/%s", shape.requests, shape.asks, command), func(b *testing.B) {
				n := 0
				before := 0.0
				for b.Loop() {
					keys, arg := call(shape.requests, shape.asks, n)
					var err error
					if command == "fcall" {
						err = c.FCall(ctx, "sluice", keys, arg).Err()
					} else {
						err = c.EvalSha(ctx, s.SHA, keys, arg).Err()
					}
					if err != nil {
						b.Fatal(err)
					}
					if n++; n == 1 { // the first call makes what a library keeps
						before = scriptTime(b, c, command)
					}
				}
				b.ReportMetric((scriptTime(b, c, command)-before)/float64(max(n-1, 1)), "redis-µs/call")
			})
		}
	}
}

// BenchmarkScript_SpansRegions reports the CPU time of Redis for a check in a call of so many plain takes of one
// limit each, over fifty entities: of a limit of one region, and of one that spans regions under a guard. Decision 31
// uses it.
func BenchmarkScript_SpansRegions(b *testing.B) {
	c := redis.NewClient(&redis.Options{Addr: testenv.Redis(b).Addr, MaxRetries: -1, DisableIdentity: true})
	b.Cleanup(func() { _ = c.Close() })
	s, ctx := New(), context.Background()
	if err := c.ScriptLoad(ctx, s.Source).Err(); err != nil {
		b.Fatal(err)
	}
	names := Names{Prefix: "sl:", Bucket: func(k limiter.Key) string { return "sl:" + string(k) }}
	for _, l := range []limiter.Limit{
		{Algorithm: limiter.FixedWindow, Count: 1_000_000, Window: 60_000},
		{Algorithm: limiter.SlidingWindowCounter, Count: 1_000_000, Window: 60_000},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 1_000_000, Window: 60_000, Buckets: 60},
		{Algorithm: limiter.TokenBucket, Count: 1000, Window: 60_000, Burst: 1_000_000}, // not empty again at once
		{Algorithm: limiter.SlidingWindowLog, Count: 1_000_000, Window: 10},
	} {
		for _, requests := range []int{1, 50} {
			for _, spans := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/%d/spans=%v", l.Algorithm, requests, spans), func(b *testing.B) {
					n, before := 0, 0.0
					for b.Loop() {
						rs := make([]*Request, requests)
						for i := range rs {
							key := limiter.Key(fmt.Sprintf("{user:%d}|7|%s", (n+i)%50, l.Algorithm.Kind()))
							rs[i] = &Request{}
							rs[i].Encode(&names, &limiter.Request{Asks: []limiter.Ask{{Key: key, Limit: l, Weight: 1, Spans: spans,
								Guard: limiter.GuardShare}}})
						}
						keys, arg := Encode(rs, nil)
						if err := c.EvalSha(ctx, s.SHA, keys, arg, "sl:changed", 3, 200, 0).Err(); err != nil {
							b.Fatal(err)
						}
						if n++; n == 100 {
							before = cpuTime(b, c)
						}
					}
					b.ReportMetric((cpuTime(b, c)-before)/float64(max(n-100, 1))/float64(requests), "redis-cpu-µs/check")
				})
			}
		}
	}
}
