package redisstore_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// selfTime returns the CPU time that this process has used, µs.
func selfTime(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64((u.Utime.Nano() + u.Stime.Nano()) / 1000)
}

// BenchmarkRegions reports what one bucket costs in a store of a region: the CPU time of Redis and of this process, µs,
// and the growth of Redis's memory, bytes. It tells of takes of one region (local), of takes with an id, as for a key
// that is at home in another region (named), of takes that span regions (global), the first and then another one of
// each bucket, and of what is told of them (export, confirm) and heard of two other regions (apply). Takes and what
// is heard go a hundred in a call. docs/capacity.md uses it.
func BenchmarkRegions(b *testing.B) {
	keys := benchKeys(b)
	for _, l := range limits(60 * minute) {
		if !l.Algorithm.Traits().Spans() {
			continue
		}
		b.Run(l.Algorithm.String(), func(b *testing.B) {
			for b.Loop() {
				measureRegions(b, l, keys)
			}
		})
	}
}

func measureRegions(b *testing.B, l limiter.Limit, keys int) {
	ctx := context.Background()
	c := client(b, testenv.Redis(b).URL())
	s := open(b, c, redisstore.Options{MaxWait: 10 * time.Second})
	redis, self, memory := cpuTime(b, c), selfTime(b), usedMemory(b, c)
	lap := func(what string) {
		r, m, p := cpuTime(b, c), usedMemory(b, c), selfTime(b)
		if what != "" {
			b.ReportMetric((r-redis)/float64(keys), what+"-redis-µs")
			b.ReportMetric((p-self)/float64(keys), what+"-µs")
			b.ReportMetric((m-memory)/float64(keys), what+"-bytes")
		}
		redis, self, memory = cpuTime(b, c), selfTime(b), m
	}
	all := func(edit func(n int, req *limiter.Request)) {
		calls := make([]limiter.Call, 100)
		for n := 0; n < keys; n += len(calls) {
			for i := range calls {
				user := uint32(n+i) * 2_654_435_761 //nolint:gosec // distinct, and looks random
				calls[i].Request = limiter.Request{Asks: []limiter.Ask{{Limit: l, Weight: 1,
					Key: limiter.Key(fmt.Sprintf("{user:%08x}|1234|%s", user, l.Algorithm.Kind()))}}}
				edit(n+i, &calls[i].Request)
			}
			s.DoAll(ctx, calls)
			for i := range calls {
				if calls[i].Err != nil {
					b.Fatal(calls[i].Err)
				}
			}
		}
	}
	for _, what := range []string{"local-first", "local"} {
		all(func(int, *limiter.Request) {})
		lap(what)
	}
	all(func(_ int, req *limiter.Request) { req.Asks[0].NotAfter = limiter.MaxExact })
	lap("divided")
	all(func(n int, req *limiter.Request) { req.ID = fmt.Sprintf("home:%024d", n) })
	lap("named")
	for _, what := range []string{"global-first", "global"} {
		all(func(_ int, req *limiter.Request) { req.Asks[0].Spans, req.Asks[0].Guard = true, limiter.GuardOpen })
		lap(what)
	}
	var sums []limiter.Exported
	for len(sums) < keys {
		some, err := s.Export(ctx, 10_000, time.Hour)
		if err != nil || len(some) == 0 {
			b.Fatalf("%d of %d buckets are exported: %v", len(sums), keys, err)
		}
		sums = append(sums, some...)
	}
	lap("export")
	for n := range sums {
		sums[n].Guard = limiter.Guard{Share: limiter.FullShare / 3}
	}
	for n := 0; n < len(sums); n += 10_000 {
		if err := s.Confirm(ctx, sums[n:min(n+10_000, len(sums))]); err != nil {
			b.Fatal(err)
		}
	}
	lap("confirm")
	for _, region := range []string{"us", "asia"} {
		all(func(n int, req *limiter.Request) {
			req.Op, req.ID, req.Sums = limiter.OpApply, region, &sums[n].Sums
			req.Asks[0].Key, req.Asks[0].Spans, req.Asks[0].Weight = sums[n].Key, true, 0
		})
		lap("apply-" + region)
	}
	for n := range sums {
		sums[n].Sums.Taken++
		sums[n].Sums.Windows[0].Units++
	}
	all(func(n int, req *limiter.Request) {
		req.Op, req.ID, req.Sums = limiter.OpApply, "us", &sums[n].Sums
		req.Asks[0].Key, req.Asks[0].Spans, req.Asks[0].Weight = sums[n].Key, true, 0
	})
	lap("apply")
}
