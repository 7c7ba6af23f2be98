package nearstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/limiter/memstore"
)

// A lease is spent up to the end of the window that it was charged in, and not
// from then on, whether or not anybody has tidied up.
func TestLease_EndsWithItsWindow(t *testing.T) {
	for _, l := range []limiter.Limit{
		{Algorithm: limiter.FixedWindow, Count: 10_000, Window: 1000},
		{Algorithm: limiter.SlidingWindowCounter, Count: 10_000, Window: 1000},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 10_000, Window: 10_000, Buckets: 10},
	} {
		t.Run(l.Algorithm.String(), func(t *testing.T) {
			v := newVirtual(t, 1, Options{HotRate: 1})
			a := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotLeased}
			v.clock.Advance(500)
			take(t, v.nodes[0], a)
			asks := func(at, want int64) {
				t.Helper()
				v.clock.Set(noon + at)
				before := v.inner.n.Load()
				take(t, v.nodes[0], a)
				if got := v.inner.n.Load() - before; got != want {
					t.Errorf("at %d ms the store was asked %d times, want %d", at, got, want)
				}
			}
			asks(501, 0)
			asks(998, 0)
			asks(1000, 1)
		})
	}
}

// The level in the store drains under a lease that nobody spends, so the lease
// shrinks with it, twice as fast.
func TestLease_BucketLeaseShrinksWithTheLevel(t *testing.T) {
	l := limiter.Limit{Algorithm: limiter.TokenBucket, Count: 1000, Burst: 10_000, Window: 1000}
	v := newVirtual(t, 1, Options{HotRate: 1})
	a := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotLeased}
	s := v.nodes[0]
	take(t, s, a)
	take(t, s, a)
	held := &s.all()[0].lease
	level := l.Burst - held.d.Remaining
	half := held.until / ms / 2
	s.all()[0].mu.Lock()
	defer s.all()[0].mu.Unlock()
	for _, at := range []int64{0, half, 2*half - 1} {
		left := held.available(at * ms)
		if most := held.units * (level - 2*at*l.Count/l.Window) / level; left > most {
			t.Errorf("after %d ms %d of %d units are left, want at most %d", at, left, held.units, most)
		}
	}
	if left := held.available(level * ms / 2); left != 0 {
		t.Errorf("%d units are left when half the level has drained, want none", left)
	}
	held.left = held.units
	if left := held.available(half * ms); left < held.units/3 {
		t.Errorf("%d of %d units are left at half time", left, held.units)
	}
}

func TestSimulation_SketchFindsTheBusiestAmongManyStrangers(t *testing.T) {
	v := newVirtual(t, 1, Options{HotRate: 1000})
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1_000_000, Window: 60_000}
	busy := []limiter.Ask{{Key: bucket(l), Limit: l, Weight: 1}, {Key: bucket(l), Limit: l, Weight: 1}}
	for i := range 60_000 { // 2 s of 30,000 takes, of which 4 in 30 are for two keys
		if i%30 == 0 {
			v.clock.Advance(1)
		}
		switch {
		case i%10 == 0:
			take(t, v.nodes[0], busy[0])
		case i%30 == 1:
			take(t, v.nodes[0], busy[1])
		default:
			take(t, v.nodes[0], limiter.Ask{Key: bucket(l), Limit: l, Weight: 1})
		}
	}
	top := v.nodes[0].HotKeys(2)
	if len(top) != 2 || top[0].Key != busy[0].Key || top[1].Key != busy[1].Key || !top[0].Hot || top[1].Rate < 900 ||
		top[0].Rate < 2900 {
		t.Errorf("found %+v", top)
	}
	named := 0
	for i := range v.nodes[0].sketch.parts {
		named += len(v.nodes[0].sketch.parts[i].list)
	}
	if named > sketchParts*partCounters {
		t.Errorf("%d counters", named)
	}
}

func TestStore_TellsOfKeysThatTurnHot(t *testing.T) {
	heard := make(chan limiter.HotKey, 10)
	m := memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = m.Close() })
	s := open(t, m, Options{HotRate: 5, TurnedHot: func(k limiter.HotKey) { heard <- k }})
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1000, Window: 60_000}
	a := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotSharded}
	for range 50 {
		take(t, s, a)
	}
	if k := <-heard; k.Key != a.Key || !k.Hot || k.State != limiter.HotSharded {
		t.Errorf("heard of %+v", k)
	}
}

func TestNew_NeedsWhatItIsMadeOf(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("started without a store")
	}
}

// BenchmarkNear is what a take costs that does not travel, and what looking for
// that costs one that does.
func BenchmarkNear(b *testing.B) {
	m := memstore.New(memstore.Options{})
	b.Cleanup(func() { _ = m.Close() })
	wide := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1 << 40, Window: limiter.MaxWindow}
	for name, run := range map[string]struct {
		opt  Options
		ask  limiter.Ask
		bare bool
	}{
		"store alone":    {ask: limiter.Ask{Limit: wide, Weight: 1}, bare: true},
		"allowed, exact": {opt: Options{DenyCache: 1000, HotRate: 1000}, ask: limiter.Ask{Limit: wide, Weight: 1}},
		"allowed, leased": {opt: Options{DenyCache: 1000, HotRate: 1000},
			ask: limiter.Ask{Limit: wide, Weight: 1, Hot: limiter.HotLeased}},
		"denied": {opt: Options{DenyCache: 1000, HotRate: 1000}, ask: limiter.Ask{Limit: oneAMinute, Weight: 1}},
	} {
		b.Run(name, func(b *testing.B) {
			var s limiter.Store = m
			if !run.bare {
				run.opt.Now = time.Now
				s = open(b, m, run.opt)
			}
			run.ask.Key = bucket(run.ask.Limit)
			req := limiter.Request{Asks: []limiter.Ask{run.ask}}
			var res limiter.Result
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Do(context.Background(), &req, &res); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What a node leases of a limit that spans regions counts in its sums when it is leased, and what comes back is
// given back.
func TestLease_CountsInTheSumsOfItsRegion(t *testing.T) {
	l := limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 10_000, Window: 60_000}
	v := newVirtual(t, 1, Options{HotRate: 1})
	a := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotLeased, Spans: true}
	const takes = 20
	for range takes {
		take(t, v.nodes[0], a)
	}
	inner, _ := v.inner.Store.(*memstore.Store)
	sums := func() limiter.Sums {
		t.Helper()
		all, err := inner.Export(context.Background(), 10, time.Hour)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0].Sums
	}
	if got := sums(); got.Taken <= takes || v.inner.n.Load() >= takes {
		t.Errorf("%+v after %d requests to the store, want a lease", got, v.inner.n.Load())
	}
	send(t, v.nodes[0], limiter.OpRefund, "nobody", a) // recalls the lease
	v.tidy()
	v.clock.Advance(60_000)
	v.tidy()
	if got := sums(); got.Taken-got.Given != takes {
		t.Errorf("%+v, want %d taken and not given back", got, takes)
	}
}

// The wait of each denial of a leased bucket is long enough for whoever asks alone.
func TestSimulation_TheWaitOfADenialOfALeasedBucketSuffices(t *testing.T) {
	for _, l := range []limiter.Limit{
		{Algorithm: limiter.LeakyBucket, Count: 100, Burst: 20, Window: 1000}, // a unit in less than a pause
		{Algorithm: limiter.LeakyBucket, Count: 7, Burst: 3, Window: 1000},    // in more than a pause and what follows it
		{Algorithm: limiter.TokenBucket, Count: 300, Burst: 50, Window: 1000},
		{Algorithm: limiter.GCRA, Count: 30, Burst: 5, Window: 1000},
		{Algorithm: limiter.SlidingWindowCounter, Count: 40, Window: 1000},
		{Algorithm: limiter.FixedWindow, Count: 10, Window: 40},
	} {
		t.Run(fmt.Sprint(l.Algorithm, l.Count), func(t *testing.T) {
			v := newVirtual(t, 1, Options{DenyCache: 1000, HotRate: 20})
			a := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotLeased}
			v.busy(t, a, 5, 1) // turns hot
			for try := range 100 {
				d, asks := limiter.Decision{Allowed: true}, 0
				for ; d.Allowed && asks < 1000; asks++ { // at most two a millisecond
					v.clock.Advance(int64(asks % 2))
					d = take(t, v.nodes[0], a).Limits[0]
				}
				if d.Allowed {
					t.Fatalf("try %d: nothing is denied", try)
				}
				v.clock.Advance(d.RetryAfter)
				if got := take(t, v.nodes[0], a).Limits[0]; !got.Allowed {
					t.Fatalf("try %d: denied for %d ms, and then for %d more", try, d.RetryAfter, got.RetryAfter)
				}
			}
		})
	}
}
