package script

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter"
)

// Whatever stands at one key, the other requests of the call are decided, and
// each answer can be read.
func TestScript_AForeignValueFailsAlone(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: testenv.Redis(t).Addr, MaxRetries: -1, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	names := Names{Prefix: "sl:", Bucket: func(k limiter.Key) string { return "sl:" + string(k) }}
	limits := []limiter.Limit{
		{Algorithm: limiter.FixedWindow, Count: 10, Window: 60_000},
		{Algorithm: limiter.FixedWindow, Count: 10, Window: 60_000, Align: limiter.AlignFirstHit},
		{Algorithm: limiter.SlidingWindowCounter, Count: 10, Window: 60_000},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 10, Window: 60_000, Buckets: 60},
		{Algorithm: limiter.TokenBucket, Count: 10, Window: 60_000, Burst: 10},
		{Algorithm: limiter.GCRA, Count: 10, Window: 60_000, Burst: 10},
	}
	s, ctx, r := New(), context.Background(), rand.New(rand.NewPCG(1, 2))
	if err := c.ScriptLoad(ctx, s.Source).Err(); err != nil {
		t.Fatal(err)
	}
	spans := false
	take := func(key string, l limiter.Limit) *Request {
		out := &Request{}
		a := limiter.Ask{Key: limiter.Key(key), Limit: l, Weight: 1, Spans: spans}
		out.Encode(&names, &limiter.Request{Asks: []limiter.Ask{a}})
		return out
	}
	now := int64(1_760_000_000_000)
	send := func(requests []*Request) {
		keys, arg := Encode(requests, func() int64 { return now })
		reply, err := c.EvalSha(ctx, s.SHA, keys, arg, "sl:changed", 3, 200, 0).Text()
		if err != nil {
			t.Fatal(err)
		}
		Decode(reply, requests)
	}
	for round := range 400 {
		now += 7000
		spans = round%2 == 1
		for i, l := range limits {
			key := fmt.Sprintf("{a}|%d", i)
			name := take(key, l).Keys[0]
			v := []byte(c.Get(ctx, name).Val())
			for range 1 + r.IntN(2) {
				switch at := r.IntN(len(v) + 1); {
				case r.IntN(3) == 0:
					v = append(v, byte(r.Uint32()), byte(r.Uint32()))
				case at < len(v) && r.IntN(3) == 0:
					v = v[:at]
				case at < len(v):
					v[at] = byte(r.Uint32())
				}
			}
			c.Set(ctx, name, v, 0)
			before, after := take(fmt.Sprintf("{b}|%d", i), limits[(i+round)%6]), take(fmt.Sprintf("{c}|%d", i), l)
			odd := take(key, l)
			requests := []*Request{before, odd, after}
			c.Del(ctx, before.Keys[0], after.Keys[0])
			send(requests)
			for _, good := range []*Request{before, after} {
				if good.Err != nil || !good.Result.Allowed {
					t.Fatalf("%s: beside %x: %v, %+v", l.Algorithm, v, good.Err, good.Result)
				}
			}
			if odd.Err != nil && limiter.CauseOf(odd.Err) != limiter.CauseBadState {
				t.Fatalf("%s at %x: %v", l.Algorithm, v, odd.Err)
			}
			if odd.Err != nil { // begin again with a value of ours
				c.Del(ctx, name)
				send([]*Request{take(key, l)})
			}
		}
	}
}
