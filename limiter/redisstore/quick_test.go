package redisstore_test

import (
	"context"
	"fmt"
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

// stored is everything that belongs to the entity: the values as Redis dumps
// them, and the instants at which they expire.
func (w *way) stored(t *rapid.T, entity string) (values map[string]string, expiry map[string]time.Duration) {
	ctx := context.Background()
	keys, err := w.client.Keys(ctx, "sl:{"+entity+"}*").Result()
	if err != nil {
		t.Fatal(err)
	}
	values, expiry = map[string]string{}, map[string]time.Duration{}
	for _, k := range keys {
		values[k], expiry[k] = w.client.Dump(ctx, k).Val(), w.client.PExpireTime(ctx, k).Val()
	}
	return values, expiry
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

// quickTraffic draws mostly plain takes, of one ask or several, among requests of
// every other kind.
func quickTraffic(t *rapid.T, tr *traffic) limiter.Request {
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

// TestScript_QuickWayAndLongWayAreTheSame is the promise that what quick.lua does
// is not seen: answers, errors, stored values and their expiry are those of the
// long way, whatever stands at the keys.
func TestScript_QuickWayAndLongWayAreTheSame(t *testing.T) {
	clock := storetest.NewClock(0)
	url := testenv.SharedRedis(t).URL()
	quick, long := way{client: client(t, url)}, way{client: client(t, strings.TrimSuffix(url, "/0")+"/1")}
	quick.store = open(t, quick.client, redisstore.Options{Clock: clock.Now, PlainKeys: true})
	var err error
	if long.store, err = redisstore.NewLongWay(redisstore.Options{Client: long.client, Clock: clock.Now, PlainKeys: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = long.store.Close() })
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		tr := newTraffic(t)
		// How far apart the same step of both ways can be by Redis's clock.
		var apart time.Duration
		for range rapid.IntRange(1, 8).Draw(t, "batches") {
			tr.step(t)
			clock.Set(tr.now)
			if rapid.IntRange(0, 3).Draw(t, "poke") == 0 {
				i := rapid.IntRange(0, len(tr.limits)-1).Draw(t, "bucket")
				k := fmt.Sprintf("sl:{%s}|%d|%s", tr.entity, i, tr.limits[i].Algorithm.Kind())
				put := rapid.SampledFrom(foreign).Draw(t, "foreign")
				for _, w := range []way{quick, long} {
					w.client.Del(ctx, k)
					put(ctx, w.client, k)
				}
			}
			var a, b []limiter.Call
			for range rapid.IntRange(1, 8).Draw(t, "requests") {
				if req := quickTraffic(t, tr); req.Check() == nil {
					a, b = append(a, limiter.Call{Request: req}), append(b, limiter.Call{Request: req})
				}
			}
			begun := quick.client.Time(ctx).Val()
			quick.store.DoAll(ctx, a)
			long.store.DoAll(ctx, b)
			apart = max(apart, quick.client.Time(ctx).Val().Sub(begun)+time.Millisecond)
			for i := range a {
				if diff := cmp.Diff(fmt.Sprint(b[i].Err), fmt.Sprint(a[i].Err)); diff != "" {
					t.Fatalf("%+v at %d (-long +quick):\n%s", a[i].Request, tr.now, diff)
				}
				if diff := cmp.Diff(b[i].Result, a[i].Result); diff != "" {
					t.Fatalf("%+v at %d (-long +quick):\n%s", a[i].Request, tr.now, diff)
				}
			}
			got, gotExpiry := quick.stored(t, tr.entity)
			want, wantExpiry := long.stored(t, tr.entity)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("at %d (-long +quick):\n%s", tr.now, diff)
			}
			for k := range got {
				if d := gotExpiry[k] - wantExpiry[k]; d.Abs() > apart {
					t.Fatalf("%s expires %v later than on the long way", k, d)
				}
			}
		}
	})
}
