package redisstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
)

var families = [][]limiter.Algorithm{
	{limiter.FixedWindow},
	{limiter.SlidingWindowCounter},
	{limiter.SlidingWindowBuckets},
	{limiter.SlidingWindowLog},
	{limiter.TokenBucket, limiter.LeakyBucket, limiter.LeakyQueue},
	{limiter.GCRA},
	{limiter.Concurrency},
}

var entities atomic.Int64

// traffic draws requests for a few buckets whose limits change now and then.
type traffic struct {
	entity string
	limits []limiter.Limit
	bans   []limiter.Limit // the ban of each limit, without an algorithm for none
	family [][]limiter.Algorithm
	large  bool
	now    int64
}

func newTraffic(t *rapid.T) *traffic {
	tr := &traffic{entity: fmt.Sprintf("user:d%d", entities.Add(1))}
	tr.large = rapid.IntRange(0, 3).Draw(t, "large") == 0
	tr.now = rapid.SampledFrom([]int64{1_760_000_000_000, 1_760_000_000_000, 5_000_000}).Draw(t, "start") +
		rapid.Int64Range(0, 100_000).Draw(t, "offset")
	for range rapid.IntRange(1, 3).Draw(t, "buckets") {
		f := rapid.SampledFrom(families).Draw(t, "family")
		tr.family = append(tr.family, f)
		tr.limits = append(tr.limits, tr.limit(t, f))
		tr.bans = append(tr.bans, tr.ban(t))
	}
	return tr
}

// ban draws a ban of a few denials, mostly none.
func (tr *traffic) ban(t *rapid.T) limiter.Limit {
	if rapid.IntRange(0, 2).Draw(t, "ban") > 0 {
		return limiter.Limit{}
	}
	times := []int64{1, 10, 100, 1000, 60_000}
	lasts := rapid.SampledFrom(times).Draw(t, "lasts")
	return limiter.BanLimit(rapid.Int64Range(1, 4).Draw(t, "after"), rapid.SampledFrom(times).Draw(t, "within"), lasts,
		rapid.Int64Range(1, limiter.MaxBanGrow).Draw(t, "grow"), lasts*rapid.Int64Range(1, 30).Draw(t, "most"))
}

// limit draws a valid limit of one of the algorithms.
func (tr *traffic) limit(t *rapid.T, family []limiter.Algorithm) limiter.Limit {
	for {
		l := limiter.Limit{Algorithm: rapid.SampledFrom(family).Draw(t, "algorithm")}
		l.Window = rapid.SampledFrom([]int64{1, 7, 10, 100, 1000, 1001, 60_000, 86_400_000}).Draw(t, "window")
		l.Count = rapid.Int64Range(0, 12).Draw(t, "count")
		if tr.large && rapid.Bool().Draw(t, "huge") {
			l.Count = limiter.MaxExact / l.Window / rapid.SampledFrom([]int64{1, 1, 2, 3, 1000}).Draw(t, "part")
		}
		if l.Algorithm == limiter.SlidingWindowBuckets {
			l.Buckets = rapid.SampledFrom([]int64{1, 2, 3, 7, 60, 1440}).Draw(t, "sub-windows")
		}
		if l.Algorithm == limiter.FixedWindow {
			l.Align = rapid.SampledFrom([]limiter.Align{limiter.AlignCalendar, limiter.AlignFirstHit}).Draw(t, "align")
			if l.Align == limiter.AlignCalendar {
				l.Anchor = rapid.SampledFrom([]int64{0, 0, 3, -5, 123_456}).Draw(t, "anchor")
			}
		}
		if l.Algorithm.Bucketed() {
			l.Burst = l.Count
			if rapid.Bool().Draw(t, "own burst") {
				l.Burst = rapid.Int64Range(0, 30).Draw(t, "burst")
			}
		}
		if l.Algorithm == limiter.SlidingWindowLog || l.Algorithm == limiter.Concurrency {
			l.Count = min(l.Count, 100_000)
		}
		if l.Validate() == nil {
			return l
		}
	}
}

func (tr *traffic) weight(t *rapid.T, l limiter.Limit) int64 {
	switch rapid.IntRange(0, 11).Draw(t, "weight kind") {
	case 0:
		return 0
	case 1, 2, 3:
		return rapid.Int64Range(1, 6).Draw(t, "weight")
	case 4:
		return l.Capacity()
	case 5:
		if tr.large {
			return rapid.SampledFrom([]int64{limiter.MaxExact, limiter.MaxExact / 3, l.Count/2 + 1}).Draw(t, "huge weight")
		}
	}
	return 1
}

// step moves the clock, mostly forward.
func (tr *traffic) step(t *rapid.T) {
	w := rapid.SampledFrom(tr.limits).Draw(t, "clock of").Window
	switch rapid.IntRange(0, 11).Draw(t, "clock") {
	case 0:
		tr.now += w
	case 1:
		tr.now += rapid.Int64Range(0, 3*w).Draw(t, "ahead")
	case 2:
		tr.now -= rapid.Int64Range(0, min(w, 1000)).Draw(t, "back")
	case 3:
		tr.now -= rapid.Int64Range(0, min(4*w, 500_000)).Draw(t, "far back")
	case 4, 5:
	default:
		tr.now += rapid.Int64Range(0, w/4+1).Draw(t, "forward")
	}
	tr.now = max(tr.now, 100_000)
}

func (tr *traffic) request(t *rapid.T) limiter.Request {
	req := limiter.Request{Op: rapid.SampledFrom([]limiter.Op{
		limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpPeek, limiter.OpCharge,
		limiter.OpRefund, limiter.OpRefund, limiter.OpRelease, limiter.OpRenew, limiter.OpReset, limiter.OpSettle,
		limiter.OpSettle,
	}).Draw(t, "op")}
	if req.Op == limiter.OpReset && rapid.IntRange(0, 3).Draw(t, "spared") > 0 {
		req.Op = limiter.OpTake
	}
	if rapid.Bool().Draw(t, "named") {
		req.ID = rapid.SampledFrom([]string{"a", "b", "{c}", "a longer name of more than 32 bytes, 0123456789"}).Draw(t, "id")
	}
	from := rapid.IntRange(0, len(tr.limits)-1).Draw(t, "from")
	for i := from; i < len(tr.limits); i++ {
		if rapid.IntRange(0, 9).Draw(t, "edit") == 0 {
			tr.limits[i] = tr.limit(t, tr.family[i])
		}
		l := tr.limits[i]
		k := limiter.Key(fmt.Sprintf("{%s}|%d|%s", tr.entity, i, l.Algorithm.Kind()))
		req.Asks = append(req.Asks, limiter.Ask{Key: k, Limit: l, Weight: tr.weight(t, l),
			Look: rapid.IntRange(0, 4).Draw(t, "look") == 0})
		if rapid.IntRange(0, 9).Draw(t, "edit of the ban") == 0 {
			tr.bans[i] = tr.ban(t)
		}
		if b := tr.bans[i]; b.Algorithm == limiter.Ban && l.Algorithm != limiter.Concurrency {
			req.Asks = append(req.Asks, limiter.Ask{Key: limiter.BanKey(k), Limit: b,
				Look: rapid.IntRange(0, 9).Draw(t, "a ban that looks") == 0})
		}
	}
	if n := len(req.Asks); req.Op == limiter.OpReset && req.Asks[n-1].Limit.Algorithm == limiter.Ban {
		req.Asks = req.Asks[rapid.SampledFrom([]int{0, n - 1}).Draw(t, "reset from"):] // all, or the ban alone
	}
	return req
}

// TestModel_TheScriptAgreesWithTheArithmeticOfPackageLimiter is the promise that Lua on
// doubles, Go on int64 and the store in memory decide alike: every answer, for random traffic with
// weights, edits of every field, clock steps, charges, refunds, leases and bans.
func TestModel_TheScriptAgreesWithTheArithmeticOfPackageLimiter(t *testing.T) {
	clock := storetest.NewClock(0)
	s := open(t, client(t, testenv.SharedRedis(t).URL()), redisstore.Options{Clock: clock.Now})
	memory := memstore.New(memstore.Options{Clock: clock.Now})
	t.Cleanup(func() { memory.Close() })
	rapid.Check(t, func(t *rapid.T) {
		tr, m := newTraffic(t), newModel()
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			tr.step(t)
			clock.Set(tr.now)
			var calls []limiter.Call
			for range rapid.IntRange(1, 8).Draw(t, "requests") {
				req := tr.request(t)
				if req.Check() == nil {
					calls = append(calls, limiter.Call{Request: req})
				}
			}
			s.DoAll(context.Background(), calls)
			for _, c := range calls {
				want := m.do(&c.Request, tr.now)
				if c.Err != nil {
					t.Fatalf("%+v at %d: %v", c.Request, tr.now, c.Err)
				}
				if diff := cmp.Diff(want, c.Result); diff != "" {
					t.Fatalf("%s %q %+v at %d (-want +got):\n%s", c.Request.Op, c.Request.ID, c.Request.Asks, tr.now, diff)
				}
				var inMemory limiter.Result
				if err := memory.Do(context.Background(), &c.Request, &inMemory); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(inMemory, c.Result); diff != "" {
					t.Fatalf("%s %q %+v at %d (-memory +Redis):\n%s", c.Request.Op, c.Request.ID, c.Request.Asks, tr.now, diff)
				}
			}
		}
	})
}
