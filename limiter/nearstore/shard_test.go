package nearstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/limiter"
)

func TestShard_PartsAddUpAndKeysAreApart(t *testing.T) {
	for _, n := range []int{2, 3, 8, 64} {
		l := limiter.Limit{Algorithm: limiter.TokenBucket, Count: 1003, Burst: 77, Window: 1000}
		var count, burst int64
		seen := map[limiter.Key]bool{}
		for i := range n {
			p := shardLimit(l, i, n)
			count, burst = count+p.Count, burst+p.Burst
			k := shardKey("{user:42}+ip:203.0.113.7|17|lv", i)
			if seen[k] || !strings.HasSuffix(string(k), "}+ip:203.0.113.7|17|lv") {
				t.Errorf("shard %d has key %q", i, k)
			}
			seen[k] = true
		}
		if count != l.Count || burst != l.Burst {
			t.Errorf("%d parts add up to %d and %d, want %d and %d", n, count, burst, l.Count, l.Burst)
		}
	}
	if string(limiter.AppendValue(nil, "%s3")) == "%s3" {
		t.Error("a caller can name a shard")
	}
}

// Hot or cold, exactly the limit passes, and no node needs to agree with another
// on whether the key is hot.
func TestSimulation_OfAShardedBucketExactlyTheLimitPasses(t *testing.T) {
	for _, a := range limiter.Algorithms() {
		if !a.Traits().Divisible {
			continue
		}
		for _, count := range []int64{1, 3, 8, 100, 777} {
			t.Run(fmt.Sprint(a, count), func(t *testing.T) {
				v := newVirtual(t, 2, Options{DenyCache: 1000, HotRate: 50})
				l := limiter.Limit{Algorithm: a, Count: count, Window: limiter.MaxWindow}
				if a.Bucketed() {
					l.Burst = count
				}
				if a == limiter.SlidingWindowBuckets {
					l.Buckets = 10
				}
				ask := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotSharded}
				passed := int64(0)
				for i := range 3000 {
					if i%10 == 0 {
						v.clock.Advance(1)
					}
					if take(t, v.nodes[i%2*(i%3%2)], ask).Allowed { // one node sees less of it
						passed++
					}
				}
				if passed != count {
					t.Errorf("%d passed, the limit is %d", passed, count)
				}
				before := v.inner.n.Load()
				for range 100 {
					if r := take(t, v.nodes[0], ask); r.Allowed || r.Limits[0].Remaining != 0 || r.Limits[0].Limit != count ||
						r.Limits[0].RetryAfter < 1 {
						t.Fatalf("denied with %+v", r)
					}
				}
				if n := v.inner.n.Load() - before; n > 20 {
					t.Errorf("100 denied takes asked the store %d times", n)
				}
			})
		}
	}
}

func TestShard_ColdKeyStaysOnItsOwnBucket(t *testing.T) {
	v := newVirtual(t, 1, Options{DenyCache: 1000, HotRate: 1000})
	l := limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 800, Window: 60_000}
	ask := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotSharded}
	for i := range int64(100) {
		if r := take(t, v.nodes[0], ask); r.Limits[0].Remaining != 799-i || r.Limits[0].Limit != 800 {
			t.Fatalf("take %d: %+v", i, r.Limits[0])
		}
	}
	if n := v.inner.n.Load(); n != 100*defaultShards {
		t.Errorf("100 takes asked the store %d times, want one take and a look at each other part", n)
	}
	if got := send(t, v.inner, limiter.OpPeek, "", limiter.Ask{Key: ask.Key, Limit: l}).Limits[0].Remaining; got != 700 {
		t.Errorf("%d remain in the bucket's own key, want 700", got)
	}
}

func TestShard_HotKeyIsSpread(t *testing.T) {
	v := newVirtual(t, 1, Options{HotRate: 10})
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 100_000, Window: 60_000}
	ask := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotSharded}
	for range 8000 {
		take(t, v.nodes[0], ask)
	}
	for i := range defaultShards {
		used := 100_000 - send(t, v.inner, limiter.OpPeek, "",
			limiter.Ask{Key: shardKey(ask.Key, i), Limit: l}).Limits[0].Remaining
		if used < 700 || used > 1300 {
			t.Errorf("shard %d has %d of 8000", i, used)
		}
	}
}

func TestShard_OtherOperationsSeeTheWhole(t *testing.T) {
	v := newVirtual(t, 2, Options{DenyCache: 100, HotRate: 10})
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 800, Window: 60_000}
	s, other := v.nodes[0], v.nodes[1]
	ask := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotSharded}
	for i := range 300 {
		res := send(t, s, limiter.OpTake, fmt.Sprint("r", i), ask)
		if again := send(t, other, limiter.OpTake, fmt.Sprint("r", i), ask); !res.Allowed || !again.Replayed {
			t.Fatalf("the repeat of request %d got %+v", i, again)
		}
	}
	remaining := func() int64 { return send(t, s, limiter.OpPeek, "", ask).Limits[0].Remaining }
	if got := remaining(); got != 500 {
		t.Fatalf("%d remain, want 500", got)
	}
	if got := send(t, other, limiter.OpRefund, "r7", ask).Limits[0].Refunded; got != 1 || remaining() != 501 {
		t.Errorf("refunded %d by id, %d remain", got, remaining())
	}
	charge := ask
	charge.Weight = 101
	send(t, s, limiter.OpCharge, "c", charge)
	if got := remaining(); got != 400 {
		t.Errorf("%d remain after a charge of 101, want 400", got)
	}
	if got := send(t, s, limiter.OpRefund, "c", charge).Limits[0].Refunded; got != 101 {
		t.Errorf("refunded %d of the charge, want 101", got)
	}
	settle := ask
	settle.Weight = 3
	if r := send(t, s, limiter.OpSettle, "r8", settle); !r.Allowed || remaining() != 499 {
		t.Errorf("settled %+v, %d remain, want 499", r, remaining())
	}
	for take(t, s, ask).Allowed {
	}
	if got := remaining(); got != 0 {
		t.Errorf("%d remain of a full bucket", got)
	}
	send(t, other, limiter.OpReset, "", ask)
	if got := remaining(); got != 800 || !take(t, s, ask).Allowed {
		t.Errorf("%d remain after a reset, want 800", got)
	}
}

// Everything else that a request says travels on when its limits are rewritten.
func TestStore_RewritesLimitsAndNothingElse(t *testing.T) {
	v := newVirtual(t, 1, Options{HotRate: 1})
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 800, Window: 60_000}
	ask := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotSharded, HotRaise: 10}
	seen := 0
	v.inner.fail = func(r *limiter.Request) error {
		seen++
		if r.ID != "mine" || r.Keep != 120_000 || r.Asks[0].Weight != 1 && r.Op == limiter.OpTake {
			t.Errorf("the store got %+v", r)
		}
		return nil
	}
	for _, op := range []limiter.Op{limiter.OpTake, limiter.OpCharge, limiter.OpSettle} {
		req := limiter.Request{Op: op, ID: "mine", Keep: 120_000, Asks: []limiter.Ask{ask}}
		if err := v.nodes[0].Do(context.Background(), &req, &limiter.Result{}); err != nil {
			t.Fatal(err)
		}
	}
	if seen != 3 {
		t.Errorf("the store was asked %d times", seen)
	}
}

func TestStore_ReleasesAreNotToldOf(t *testing.T) {
	v := newVirtual(t, 2, Options{DenyCache: 100, HotRate: 10})
	told := 0
	v.nodes[0].opt.Tell = func(limiter.Key, bool) { told++ }
	l := limiter.Limit{Algorithm: limiter.Concurrency, Count: 2, Window: 60_000}
	a := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1}
	send(t, v.nodes[0], limiter.OpTake, "a", a)
	send(t, v.nodes[0], limiter.OpRelease, "a", a)
	if told != 0 {
		t.Errorf("told of %d releases", told)
	}
}

func TestRaise_HoldsWhileHotAndNoLonger(t *testing.T) {
	v := newVirtual(t, 1, Options{HotRate: 100})
	l := limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 200, Window: 600_000}
	ask := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotLeased, HotRaise: 50}
	passed := 0
	for range 1000 {
		if take(t, v.nodes[0], ask).Allowed {
			passed++
		}
	}
	if passed != 300 {
		t.Errorf("%d passed of a limit of 200 raised by half while hot", passed)
	}
	for range 3 {
		v.clock.Advance(1000)
		v.tidy()
	}
	if r := take(t, v.nodes[0], ask); r.Allowed || r.Limits[0].Limit != 200 {
		t.Errorf("cold: %+v", r)
	}
}

// Two nodes on one Redis, everything on: exactly the limit passes where the
// bucket is sharded, and never more where it is leased.
func TestStorm_HotKeysOnRedisNeverPassTheLimit(t *testing.T) {
	const limit = 5000
	for _, hot := range []limiter.HotMode{limiter.HotLeased, limiter.HotSharded} {
		for _, a := range limiter.Algorithms() {
			if !(&limiter.Limit{Algorithm: a, Window: limiter.MaxWindow, Count: 1}).Leasable() {
				continue
			}
			t.Run(fmt.Sprint(hot, a), func(t *testing.T) {
				first, second := pair(t, Options{DenyCache: 1000, HotRate: 10})
				l := limiter.Limit{Algorithm: a, Count: limit, Window: limiter.MaxWindow}
				switch {
				case a.Bucketed():
					l.Count, l.Burst = 100, limit // drains nothing meanwhile
				case a == limiter.SlidingWindowBuckets:
					l.Buckets = 10
				}
				ask := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: hot}
				var passed, failed atomic.Int64
				var wg sync.WaitGroup
				for caller := range 16 {
					s := []*Store{first, second}[caller%2]
					wg.Go(func() {
						for range 600 {
							var res limiter.Result
							req := limiter.Request{Asks: []limiter.Ask{ask}}
							if err := s.Do(context.Background(), &req, &res); err != nil {
								failed.Add(1)
							} else if res.Allowed {
								passed.Add(1)
							}
						}
					})
				}
				wg.Wait()
				if failed.Load() > 0 {
					t.Fatalf("%d could not be decided", failed.Load())
				}
				st := first.Stats()
				t.Logf("%d passed of %d; this node took %d leases", passed.Load(), limit, st.Leases)
				switch got := passed.Load(); {
				case got > limit:
					t.Errorf("%d passed, the limit is %d", got, limit)
				case hot == limiter.HotSharded && a != limiter.SlidingWindowBuckets && got < limit*99/100, got < limit*9/10:
					t.Errorf("only %d passed of %d", got, limit)
				}
			})
		}
	}
}

// After an edit of the algorithm each shard counts what it had spent before.
func TestShard_EditOfTheAlgorithmKeepsWhatWasSpent(t *testing.T) {
	v := newVirtual(t, 1, Options{DenyCache: 1000, HotRate: 50})
	old := limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 100, Window: limiter.MaxWindow}
	ask := limiter.Ask{Key: bucket(old), Limit: old, Weight: 1, Hot: limiter.HotSharded}
	for range 60 {
		take(t, v.nodes[0], ask)
	}
	edited := limiter.Limit{Algorithm: limiter.TokenBucket, Count: 100, Burst: 100, Window: limiter.MaxWindow}
	ask.Key, ask.Limit, ask.Former = limiter.Key(strings.TrimSuffix(string(ask.Key), "sc")+"lv"), edited, &old
	var res limiter.Result
	look := limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{ask}}
	if err := v.nodes[0].Do(t.Context(), &look, &res); err != nil || res.Limits[0].Remaining != 40 {
		t.Errorf("a look says %+v, %v, want 40 remaining", res, err)
	}
	passed := 0
	for range 200 {
		if take(t, v.nodes[0], ask).Allowed {
			passed++
		}
	}
	if passed != 40 {
		t.Errorf("%d passed after the edit, 40 were left", passed)
	}
}
