package home

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/limiter/memstore"
)

// BenchmarkStore_Home reports the CPU time of both regions for a call that the other one decides, µs a call, by how
// many calls share a message. Buckets are in memory. docs/capacity.md uses it.
func BenchmarkStore_Home(b *testing.B) {
	for _, together := range []int{1, maxTogether} {
		b.Run(fmt.Sprint(together), func(b *testing.B) {
			stores := map[string]limiter.Store{}
			for _, name := range []string{"eu", "us"} {
				s := memstore.New(memstore.Options{})
				b.Cleanup(func() { _ = s.Close() })
				stores[name] = s
			}
			eu := world(b, time.Minute, stores)["eu"]
			var keys []limiter.Key
			for n := 0; len(keys) < together; n++ {
				key := limiter.Key(fmt.Sprintf("{user:%08x}|1234|sc", n))
				if Of(key, eu.names) == "us" {
					keys = append(keys, key)
				}
			}
			limit := limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 1_000_000, Window: 60_000}
			calls := make([]limiter.Call, together)
			var before, after syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				for i := range calls {
					calls[i].Request = limiter.Request{Asks: []limiter.Ask{{Key: keys[i], Limit: limit, Weight: 1}}}
				}
				eu.DoAll(context.Background(), calls)
				if calls[0].Err != nil {
					b.Fatal(calls[0].Err)
				}
			}
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
				b.Fatal(err)
			}
			used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(used)/1000/float64(b.N*together), "cpu-µs/call")
		})
	}
}
