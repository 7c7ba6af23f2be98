package redisstore_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
)

// way is a store and the database of Redis in which it keeps its buckets.
type way struct {
	store  *redisstore.Store
	client redis.UniversalClient
}

// ways are a store as it is and one that sends plain takes the long way too, each
// on a database of its own of one server.
type ways struct {
	plain, long way
	// apart is how far apart the same step of both can have been by Redis's clock.
	apart time.Duration
}

func bothWays(t *testing.T, clock *storetest.Clock) *ways {
	t.Helper()
	// The other tests fill database 0, and KEYS looks at every key of a database.
	server := strings.TrimSuffix(testenv.SharedRedis(t).URL(), "/0")
	w := &ways{plain: way{client: client(t, server+"/1")}, long: way{client: client(t, server+"/2")}}
	w.plain.store = open(t, w.plain.client, redisstore.Options{Clock: clock.Now, PlainKeys: true})
	var err error
	if w.long.store, err = redisstore.NewLongWay(
		redisstore.Options{Client: w.long.client, Clock: clock.Now, PlainKeys: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.long.store.Close() })
	return w
}

// stored is everything that belongs to the entity: the values as Redis dumps
// them, and the instants at which they expire.
func (w *way) stored(t rapid.TB, entity string) (values map[string]string, expiry map[string]time.Duration) {
	ctx := context.Background()
	keys, err := w.client.Keys(ctx, "sl:{"+entity+"}*").Result()
	if err != nil {
		t.Fatal(err)
	}
	dumps, expiries := make([]*redis.StringCmd, len(keys)), make([]*redis.DurationCmd, len(keys))
	_, _ = w.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, k := range keys {
			dumps[i], expiries[i] = p.Dump(ctx, k), p.PExpireTime(ctx, k)
		}
		return nil
	})
	values, expiry = map[string]string{}, map[string]time.Duration{}
	for i, k := range keys {
		values[k], expiry[k] = dumps[i].Val(), expiries[i].Val()
	}
	return values, expiry
}

// same decides the calls both ways and fails unless answers, errors, what is
// stored for the entity and when it expires agree.
func (w *ways) same(t rapid.TB, entity string, calls []limiter.Call) {
	ctx := context.Background()
	other := slices.Clone(calls)
	begun := w.plain.client.Time(ctx).Val()
	w.plain.store.DoAll(ctx, calls)
	w.long.store.DoAll(ctx, other)
	w.apart = max(w.apart, w.plain.client.Time(ctx).Val().Sub(begun)+time.Millisecond)
	for i := range calls {
		if diff := cmp.Diff(fmt.Sprint(other[i].Err), fmt.Sprint(calls[i].Err)); diff != "" {
			t.Fatalf("%+v at %d (-long +plain):\n%s", calls[i].Request, calls[i].Result.At, diff)
		}
		if diff := cmp.Diff(other[i].Result, calls[i].Result); diff != "" {
			t.Fatalf("%+v (-long +plain):\n%s", calls[i].Request, diff)
		}
	}
	got, gotExpiry := w.plain.stored(t, entity)
	want, wantExpiry := w.long.stored(t, entity)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%+v (-long +plain):\n%s", calls, diff)
	}
	for k := range got {
		if d := gotExpiry[k] - wantExpiry[k]; d.Abs() > w.apart {
			t.Fatalf("%s expires %v later than on the long way", k, d)
		}
	}
}

// foreign are values that nobody here has written, and states of other clocks and
// odd forms.
var foreign = []func(context.Context, redis.UniversalClient, string){
	func(ctx context.Context, c redis.UniversalClient, k string) { c.HSet(ctx, k, "a", "b") },
	func(ctx context.Context, c redis.UniversalClient, k string) { c.RPush(ctx, k, "a", "b") },
	func(ctx context.Context, c redis.UniversalClient, k string) { c.Set(ctx, k, "x", 0) },
	func(ctx context.Context, c redis.UniversalClient, k string) { c.Set(ctx, k, "", 0) },
	func(ctx context.Context, c redis.UniversalClient, k string) { c.Set(ctx, k, "12", 0) },
	func(ctx context.Context, c redis.UniversalClient, k string) { c.Set(ctx, k, "1234567890000003", 0) },
	func(ctx context.Context, c redis.UniversalClient, k string) { c.Set(ctx, k, "1760000000000000003", 0) },
	func(ctx context.Context, c redis.UniversalClient, k string) {
		c.Set(ctx, k, "1759999999999:7000000", 0)
	},
	func(ctx context.Context, c redis.UniversalClient, k string) { c.Set(ctx, k, "-5:3", 0) },
	func(ctx context.Context, c redis.UniversalClient, k string) { c.Set(ctx, k, "1e9000003", 0) },
	// Packed: used 3, the other 1, at EPOCH - 2^32 ms (ahead), and one byte too many.
	func(ctx context.Context, c redis.UniversalClient, k string) {
		c.Set(ctx, k, "\x09\xff\x00\x00\x00\x00\x03\x01", 0)
	},
	func(ctx context.Context, c redis.UniversalClient, k string) {
		c.Set(ctx, k, "\x09\xdf\x00\x00\x00\x00\x03\x01", 0)
	},
	func(ctx context.Context, c redis.UniversalClient, k string) {
		c.Set(ctx, k, "\x09\xdf\x00\x00\x00\x00\x03\x01\x00", 0)
	},
	// A minute, in minutes; wide, long ago and in full.
	func(ctx context.Context, c redis.UniversalClient, k string) {
		c.Set(ctx, k, "\x89\xdf\x00\x00\x00\x00\x03\x01", 0)
	},
	func(ctx context.Context, c redis.UniversalClient, k string) {
		c.Set(ctx, k, "\x49\x00\x00\x00\x00\x00\x00\x07\x03\x01", 0)
	},
	func(ctx context.Context, c redis.UniversalClient, k string) {
		c.Set(ctx, k, "\x7f\x00\x00\x00\x00\x00\x00\x07\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x01", 0)
	},
}

// plainTraffic draws mostly plain takes, of one ask or several, among requests of
// every other kind.
func plainTraffic(t *rapid.T, tr *traffic) limiter.Request {
	if rapid.IntRange(0, 5).Draw(t, "any") == 0 {
		return tr.request(t)
	}
	var req limiter.Request
	from := rapid.IntRange(0, len(tr.limits)-1).Draw(t, "from")
	for i := from; i < len(tr.limits); i++ {
		if rapid.IntRange(0, 12).Draw(t, "edit") == 0 {
			tr.limits[i] = tr.limit(t, tr.family[i])
		}
		l := tr.limits[i]
		k := limiter.Key(fmt.Sprintf("{%s}|%d|%s", tr.entity, i, l.Algorithm.Kind()))
		req.Asks = append(req.Asks, limiter.Ask{Key: k, Limit: l, Weight: tr.weight(t, l)})
	}
	return req
}

// TestModel_PlainWayAndLongWayAreTheSame is the promise that which way a take
// goes through the script is not seen: answers, errors, stored values and their expiry are those of the
// long way, whatever stands at the keys.
func TestModel_PlainWayAndLongWayAreTheSame(t *testing.T) {
	clock := storetest.NewClock(0)
	both := bothWays(t, clock)
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		tr := newTraffic(t)
		for range rapid.IntRange(1, 8).Draw(t, "batches") {
			tr.step(t)
			clock.Set(tr.now)
			if rapid.IntRange(0, 3).Draw(t, "poke") == 0 {
				i := rapid.IntRange(0, len(tr.limits)-1).Draw(t, "bucket")
				k := fmt.Sprintf("sl:{%s}|%d|%s", tr.entity, i, tr.limits[i].Algorithm.Kind())
				put := rapid.SampledFrom(foreign).Draw(t, "foreign")
				for _, w := range []way{both.plain, both.long} {
					w.client.Del(ctx, k)
					put(ctx, w.client, k)
				}
			}
			var calls []limiter.Call
			for range rapid.IntRange(1, 8).Draw(t, "requests") {
				if req := plainTraffic(t, tr); req.Check() == nil {
					calls = append(calls, limiter.Call{Request: req})
				}
			}
			both.same(t, tr.entity, calls)
		}
	})
}

// TestModel_PlainWayAndLongWayStayTogether walks one bucket of each kind for as
// long as it takes to fill, slide, deny and empty, now and then by an edit.
func TestModel_PlainWayAndLongWayStayTogether(t *testing.T) {
	clock := storetest.NewClock(0)
	both := bothWays(t, clock)
	for _, l := range []limiter.Limit{
		{Algorithm: limiter.FixedWindow, Count: 40, Window: 1000, Anchor: -123},
		{Algorithm: limiter.FixedWindow, Count: 40, Window: 1000, Align: limiter.AlignFirstHit},
		{Algorithm: limiter.SlidingWindowCounter, Count: 40, Window: 1000},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 40, Window: 1000, Buckets: 60},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 40, Window: 1000, Buckets: 7},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 1000, Window: 1000, Buckets: 3},
		{Algorithm: limiter.SlidingWindowLog, Count: 40, Window: 1000},
		{Algorithm: limiter.TokenBucket, Count: 40, Window: 1000, Burst: 17},
		{Algorithm: limiter.LeakyBucket, Count: 7, Window: 1000, Burst: 12},
		{Algorithm: limiter.LeakyQueue, Count: 7, Window: 1000, Burst: 12},
		{Algorithm: limiter.GCRA, Count: 40, Window: 1000, Burst: 17},
	} {
		for seed := range uint64(4) {
			r, name := rand.New(rand.NewPCG(seed, 1)), entity()
			now, l := int64(1_760_000_000_000), l
			for range 250 {
				if now += []int64{0, 3, 17, 40, 300}[r.IntN(5)] * int64(r.IntN(4)); r.IntN(60) == 0 {
					now += 2500 - int64(r.IntN(3))*1000
				}
				if r.IntN(80) == 0 {
					l.Count = max(0, l.Count+int64(r.IntN(9))-4)
				}
				clock.Set(now)
				var a []limiter.Call
				for range 1 + r.IntN(3) {
					k := ask(name, 1, l)
					k.Weight = int64(max(1, r.IntN(12)-6))
					if l.Count > 500 {
						k.Weight *= 50
					}
					a = append(a, limiter.Call{Request: limiter.Request{Asks: []limiter.Ask{k}}})
				}
				both.same(t, name, a)
			}
		}
	}
}

// TestScript_PlainWayReadsOddSubWindowsAsTheLongWay puts states of 60 sub-windows
// a second into a bucket that only a stranger, or a clock gone wrong, can have
// written. The current sub-window is 105,600,000,000.
func TestScript_PlainWayReadsOddSubWindowsAsTheLongWay(t *testing.T) {
	clock := storetest.NewClock(1_760_000_000_000)
	both := bothWays(t, clock)
	at := "\x0a\xdf\x67\x59\x88\x00\x03\xe8\x3c" // 140,000,000 s before EPOCH, that is now; 1000, 60
	index := func(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(105_600_000_000+n))[1:]) }
	for name, body := range map[string]string{
		"dense":                   "\x01" + index(-3) + "\x03\x00\x00\x02",
		"dense, leading zeros":    "\x01" + index(-5) + "\x00\x00\x03\x01",
		"dense, trailing zero":    "\x01" + index(-5) + "\x03\x01\x00",
		"dense, only zeros":       "\x01" + index(-5) + "\x00\x00",
		"dense, partly expired":   "\x01" + index(-63) + "\x05\x05\x05\x05\x01",
		"dense, all expired":      "\x01" + index(-90) + "\x05\x05\x05",
		"dense, ahead":            "\x01" + index(-1) + "\x03\x01\x01\x01",
		"dense, long":             "\x01" + index(-300) + strings.Repeat("\x01", 290),
		"dense, of two bytes":     "\x02" + index(-2) + "\x00\x03\x00\x01",
		"dense, full":             "\x01" + index(-1) + "\xff\xff",
		"pairs":                   "\x09" + index(-40) + "\x00\x03\x20\x02",
		"pairs, partly expired":   "\x09" + index(-70) + "\x00\x03\x20\x02",
		"pairs, fading":           "\x09" + index(-60) + "\x00\x09\x20\x02",
		"pairs, current":          "\x09" + index(-40) + "\x00\x03\x28\x02",
		"pairs, a zero":           "\x09" + index(-40) + "\x00\x00\x20\x02",
		"pairs, trailing zero":    "\x09" + index(-40) + "\x00\x03\x20\x00",
		"pairs, out of order":     "\x09" + index(-40) + "\x20\x03\x01\x02",
		"pairs, half a one":       "\x09" + index(-40) + "\x00\x03\x20",
		"pairs, ahead":            "\x09" + index(-4) + "\x00\x03\x20\x02",
		"pairs, far apart":        "\x11" + index(-40) + "\x00\x00\x03\x00\x20\x02",
		"before all time":         "\x01\xff\xff\xff\xff\xff\xff\xfe\x03",
		"no entries":              "\x01" + index(-3),
		"half a first index":      "\x01\x00\x00",
		"an empty mode":           "\x00" + index(-3) + "\x03",
		"nothing":                 "",
		"many entries, then some": "\x01" + index(-9000) + strings.Repeat("\x01", 9000),
	} {
		for _, weights := range [][]int64{{1, 1, 9}, {300}, {12, 0}, {4, 4, 4}} {
			who := entity()
			k := ask(who, 1, limiter.Limit{Algorithm: limiter.SlidingWindowBuckets, Count: 12, Window: 1000, Buckets: 60})
			for _, w := range []way{both.plain, both.long} {
				w.client.Set(context.Background(), "sl:"+string(k.Key), at+body, 0)
			}
			var calls []limiter.Call
			for _, w := range weights {
				k.Weight = w
				calls = append(calls, limiter.Call{Request: limiter.Request{Asks: []limiter.Ask{k}}})
			}
			t.Log(name, weights)
			both.same(t, who, calls)
		}
	}
}
