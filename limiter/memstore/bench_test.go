package memstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/storetest"
)

var benchLimits = map[string]limiter.Limit{
	"fixed_window":           {Algorithm: limiter.FixedWindow, Count: 1000, Window: 3_600_000},
	"sliding_window_counter": {Algorithm: limiter.SlidingWindowCounter, Count: 1000, Window: 3_600_000},
	"token_bucket":           {Algorithm: limiter.TokenBucket, Count: 1000, Window: 3_600_000, Burst: 1000},
	"gcra":                   {Algorithm: limiter.GCRA, Count: 1000, Window: 3_600_000, Burst: 1000},
	"sliding_window_buckets": {Algorithm: limiter.SlidingWindowBuckets, Count: 1000, Window: 3_600_000, Buckets: 60},
	"sliding_window_log":     {Algorithm: limiter.SlidingWindowLog, Count: 1000, Window: 3_600_000},
}

const benchKeys = 1_000_000

var benchKeyNames = sync.OnceValue(func() []string {
	names := make([]string, benchKeys)
	for i, user := range rand.Perm(benchKeys) {
		names[i] = fmt.Sprintf("{user:%d}|17|", user)
	}
	return names
})

// BenchmarkCheck is a take of 1 on a random one of a million keys. The key's own
// bytes are next to each other in the order of use, as cheap to read as those of
// a request that has just been decoded.
func BenchmarkCheck(b *testing.B) {
	for name, l := range benchLimits {
		b.Run(name, func(b *testing.B) {
			s := newStore(b, memstore.Options{})
			keys := make([]limiter.Key, benchKeys)
			for i, n := range benchKeyNames() {
				keys[i] = limiter.Key(n + l.Algorithm.Kind())
			}
			take := func(req *limiter.Request, res *limiter.Result, k limiter.Key) {
				req.Asks[0].Key = k
				if err := s.Do(context.Background(), req, res); err != nil {
					b.Fatal(err)
				}
			}
			req := &limiter.Request{Asks: []limiter.Ask{{Limit: l, Weight: 1}}}
			var res limiter.Result
			before := heap()
			for _, i := range rand.Perm(benchKeys) {
				take(req, &res, keys[i])
			}
			b.ReportAllocs()
			perKey := float64(heap()-before) / benchKeys
			b.ResetTimer()
			for i := range b.N {
				take(req, &res, keys[i%benchKeys])
			}
			b.ReportMetric(perKey, "B/key")
		})
	}
}

// heap is the memory in use after a collection, in bytes.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkCheckThree takes from three limits of one entity together.
func BenchmarkCheckThree(b *testing.B) {
	s := newStore(b, memstore.Options{})
	req := &limiter.Request{Asks: []limiter.Ask{
		{Key: "{user:1}|1|sc", Limit: benchLimits["sliding_window_counter"], Weight: 1},
		{Key: "{user:1}|2|lv", Limit: benchLimits["token_bucket"], Weight: 1},
		{Key: "{user:1}|3|fw", Limit: benchLimits["fixed_window"], Weight: 1},
	}}
	var res limiter.Result
	b.ReportAllocs()
	for range b.N {
		if err := s.Do(context.Background(), req, &res); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLog is a take of 1 that a log of so many entries admits, dropping one that has expired, and one that it
// denies because the limit was lowered to ten.
func BenchmarkLog(b *testing.B) {
	for _, held := range []int64{10, 100, 1000, 60_000} {
		clock := storetest.NewClock(1_760_000_000_000)
		s := newStore(b, memstore.Options{Clock: clock.Now})
		a := limiter.Ask{Key: "{user:1}|1|sl", Weight: 1,
			Limit: limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: held, Window: held}}
		req, res := &limiter.Request{Asks: []limiter.Ask{a}}, limiter.Result{}
		take := func(allowed bool) {
			if err := s.Do(context.Background(), req, &res); err != nil || res.Allowed != allowed {
				b.Fatal(res, err)
			}
		}
		for range held {
			take(true)
			clock.Advance(1)
		}
		b.Run(fmt.Sprintf("take/%d", held), func(b *testing.B) {
			for b.Loop() {
				take(true)
				clock.Advance(1)
			}
		})
		req.Asks[0].Limit.Count = 9
		clock.Advance(-1)
		b.Run(fmt.Sprintf("denial/%d", held), func(b *testing.B) {
			for b.Loop() {
				take(false)
			}
		})
	}
}
