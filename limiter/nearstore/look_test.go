package nearstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// sum is what all parts of a sharded bucket say, asked one by one.
func sum(t testing.TB, inner limiter.Store, ask *limiter.Ask) (remaining, reset int64) {
	t.Helper()
	for i := range defaultShards {
		part := limiter.Ask{Key: shardKey(ask.Key, i), Limit: shardLimit(ask.Limit, i, defaultShards)}
		d := send(t, inner, limiter.OpPeek, "", part).Limits[0]
		remaining, reset = remaining+d.Remaining, longer(reset, d.Reset)
	}
	return remaining, reset
}

// wholeIsSum spends at random over the parts of a bucket and compares what a
// weight of 0, explain's peek and a take of a node for which the key is cold say
// with the sum of the parts.
func wholeIsSum(t testing.TB, inner limiter.Store, spender, cold *Store, l limiter.Limit, rounds int,
	draw func(n int) int) {
	t.Helper()
	ask := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotSharded}
	for round := range rounds {
		part := draw(defaultShards)
		spent := limiter.Ask{Key: shardKey(ask.Key, part), Limit: shardLimit(l, part, defaultShards),
			Weight: int64(1 + draw(20))}
		send(t, inner, limiter.OpTake, "", spent)
		for range draw(5) {
			take(t, spender, ask)
		}
		want, _ := sum(t, inner, &ask)
		look := ask
		look.Weight = 0
		looked, peeked := take(t, cold, look).Limits[0], send(t, cold, limiter.OpPeek, "", look).Limits[0]
		if looked.Remaining != want || peeked.Remaining != want || looked.Limit != l.Capacity() || !looked.Allowed {
			t.Fatalf("round %d: a look says %+v, explain %+v, the parts add up to %d", round, looked, peeked, want)
		}
		if _, virtual := inner.(*counting); virtual && looked.Reset != peeked.Reset {
			t.Fatalf("round %d: a look says reset %d, explain %d", round, looked.Reset, peeked.Reset)
		}
		id := ""
		if draw(2) > 0 {
			id = fmt.Sprint("r", round)
		}
		got := send(t, cold, limiter.OpTake, id, ask)
		if want, _ := sum(t, inner, &ask); got.Limits[0].Remaining != want {
			t.Fatalf("round %d: a take says %+v, the parts add up to %d", round, got.Limits[0], want)
		}
		other := ask
		other.Key = bucket(l)
		calls := []limiter.Call{{Request: limiter.Request{Asks: []limiter.Ask{other}}},
			{Request: limiter.Request{Asks: []limiter.Ask{look}}}}
		cold.DoAll(t.Context(), calls)
		if want, _ := sum(t, inner, &ask); calls[1].Err != nil || calls[1].Result.Limits[0].Remaining != want {
			t.Fatalf("round %d: a look in a batch says %+v (%v), the parts add up to %d", round, calls[1].Result.Limits[0],
				calls[1].Err, want)
		}
	}
}

// spacious are limits whose state does not change by time alone within a test.
func spacious() []limiter.Limit {
	return []limiter.Limit{
		{Algorithm: limiter.FixedWindow, Count: 1003, Window: limiter.MaxWindow},
		{Algorithm: limiter.SlidingWindowCounter, Count: 900, Window: limiter.MaxWindow / 10_000},
		{Algorithm: limiter.TokenBucket, Count: 9, Burst: 777, Window: limiter.MaxWindow},
		{Algorithm: limiter.GCRA, Count: 9, Burst: 777, Window: limiter.MaxWindow},
	}
}

func TestModel_LookSaysTheSumOfAllParts(t *testing.T) {
	for _, l := range spacious() {
		t.Run(l.Algorithm.String(), func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				v := newVirtual(t, 2, Options{DenyCache: 1000, HotRate: 20})
				cold, err := newStore(Options{Store: v.inner, Now: v.nodes[0].opt.Now, DenyCache: 1000, HotRate: 1 << 40})
				if err != nil {
					t.Fatal(err)
				}
				close(cold.done)
				wholeIsSum(t, v.inner, v.nodes[0], cold, l, 12, func(n int) int { return rapid.IntRange(0, n-1).Draw(r, "n") })
			})
		})
	}
}

// random draws from a fixed seed.
func random() func(n int) int {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's traffic
	return r.IntN
}

func TestModel_LookSaysTheSumOfAllPartsOnRedis(t *testing.T) {
	inner := onRedis(t, nil)
	spender, cold := open(t, inner, Options{HotRate: 5}), open(t, inner, Options{DenyCache: 1000, HotRate: 1 << 40})
	for _, l := range spacious() {
		wholeIsSum(t, inner, spender, cold, l, 20, random())
	}
}

func TestModel_LookSaysTheSumOfAllPartsOnACluster(t *testing.T) {
	client, err := redisstore.NewClient(testenv.SharedCluster(t).URL(),
		redisstore.ClientOptions{DialTimeout: 10 * time.Second, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	inner, err := redisstore.New(redisstore.Options{Client: client, MaxWait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inner.Close() })
	spender, cold := open(t, inner, Options{HotRate: 5}), open(t, inner, Options{DenyCache: 1000, HotRate: 1 << 40})
	for _, l := range spacious() {
		wholeIsSum(t, inner, spender, cold, l, 10, random())
	}
}

// A limit that another one denied says what remains in all of its parts too, and
// whether any of them would have admitted the request.
func TestLook_BesideADenial(t *testing.T) {
	v := newVirtual(t, 1, Options{HotRate: 1 << 40})
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 800, Window: limiter.MaxWindow}
	one := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1, Window: limiter.MaxWindow}
	sharded := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotSharded}
	plain := limiter.Ask{Key: bucket(one), Limit: one, Weight: 1}
	full := limiter.Ask{Key: sharded.Key, Limit: shardLimit(l, 0, defaultShards), Weight: 100}
	send(t, v.inner, limiter.OpTake, "", full)
	take(t, v.nodes[0], plain)
	res := take(t, v.nodes[0], plain, sharded)
	if d := res.Limits[1]; res.Allowed || !d.Allowed || d.Remaining != 700 || d.RetryAfter != 0 {
		t.Errorf("%+v", res)
	}
}

// A settlement concerns one part; its answer is about the whole.
func TestLook_ASettlementSaysTheSum(t *testing.T) {
	v := newVirtual(t, 1, Options{HotRate: 1 << 40})
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 800, Window: limiter.MaxWindow}
	ask := limiter.Ask{Key: bucket(l), Limit: l, Weight: 10, Hot: limiter.HotSharded}
	send(t, v.nodes[0], limiter.OpTake, "a", ask)
	ask.Weight = 4
	if d := send(t, v.nodes[0], limiter.OpSettle, "a", ask).Limits[0]; d.Remaining != 796 || d.Limit != 800 {
		t.Errorf("%+v", d)
	}
}

// Where the other parts cannot be looked at the take stands, with an estimate.
func TestLook_ThatFailsLeavesTheTake(t *testing.T) {
	v := newVirtual(t, 1, Options{HotRate: 1 << 40})
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 800, Window: limiter.MaxWindow}
	ask := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotSharded}
	v.inner.each = func(c *limiter.Call) {
		if c.Request.Asks[0].Weight == 0 {
			c.Err = errors.New("out of reach")
		}
	}
	r := take(t, v.nodes[0], ask)
	if d := r.Limits[0]; !r.Allowed || d.Remaining != 99*defaultShards || d.Limit != 800 {
		t.Errorf("%+v", r)
	}
}
