package nearstore

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
	"sluice/limiter/memstore"
)

// drawWide draws a limit wide enough for leases.
func drawWide(t *rapid.T, a limiter.Algorithm) limiter.Limit {
	l := limiter.Limit{
		Algorithm: a, Count: rapid.SampledFrom([]int64{200, 1000, 5000, 40_000}).Draw(t, "count"),
		Window: rapid.SampledFrom([]int64{50, 1000, 1009, 10_000, 60_000}).Draw(t, "window"),
	}
	switch {
	case a.Bucketed():
		l.Burst = rapid.SampledFrom([]int64{l.Count, 300, 5000}).Draw(t, "burst")
	case a == limiter.SlidingWindowBuckets:
		l.Buckets = rapid.SampledFrom([]int64{1, 3, 10}).Draw(t, "buckets")
	case a == limiter.FixedWindow && rapid.Bool().Draw(t, "first hit"):
		l.Align = limiter.AlignFirstHit
	}
	return l
}

// fleet is several nodes with leases, and a store of its own that is told of
// every take that was admitted when it was admitted, and of nothing else. That
// store is held to the exact reference by its own tests, and is quicker.
type fleet struct {
	*rapid.T
	v      *virtual
	truth  limiter.Store
	leased limiter.Ask
	narrow limiter.Ask     // beside it, exact
	before []limiter.Limit // that the leased one had
	n      int
	named  []limiter.Request
	log    string
}

func (f *fleet) note(format string, args ...any) {
	f.log += fmt.Sprintf("%d: ", f.v.clock.Now()-noon) + fmt.Sprintf(format, args...) + "\n"
}

// tell repeats on the reference what happened, which must be admitted there too
// if it was a take.
func (f *fleet) tell(req *limiter.Request) {
	var res limiter.Result
	if err := f.truth.Do(context.Background(), req, &res); err != nil {
		f.Fatal(err)
	}
	if req.Op == limiter.OpTake && !res.Allowed {
		f.Fatalf("%s\nadmitted %d, which passes the limit: %+v", f.log, req.Asks[0].Weight, res.Limits)
	}
}

func (f *fleet) take(node int) {
	a := f.leased
	a.Weight = rapid.SampledFrom([]int64{1, 1, 1, 2, 7}).Draw(f.T, "weight")
	req := limiter.Request{Asks: []limiter.Ask{a}}
	switch rapid.IntRange(0, 9).Draw(f.T, "form") {
	case 0, 1:
		req.Asks = append(req.Asks, f.narrow)
	case 2:
		f.n++
		req.ID = fmt.Sprint("named ", f.n)
	}
	many := 1
	if req.ID == "" {
		many = rapid.SampledFrom([]int{1, 5, 40, 100}).Draw(f.T, "many")
	}
	passed := 0
	for range many {
		var res limiter.Result
		if err := f.v.nodes[node].Do(context.Background(), &req, &res); err != nil {
			f.Fatal(err)
		}
		if !res.Allowed {
			continue
		}
		passed++
		f.tell(&req)
		if req.ID != "" {
			f.named = append(f.named, req)
		}
	}
	f.note("node %d: %d takes of %d (%d limits, id %q), %d passed", node, many, a.Weight, len(req.Asks), req.ID, passed)
}

// undo refunds a named take or resets the bucket.
func (f *fleet) undo(node int) {
	req := limiter.Request{Op: limiter.OpReset, Asks: []limiter.Ask{f.leased}}
	if n := len(f.named); n > 0 && rapid.IntRange(0, 5).Draw(f.T, "reset") > 0 {
		req = f.named[n-1]
		req.Op = limiter.OpRefund
		f.named = f.named[:n-1]
		if f.leased.Limit != req.Asks[0].Limit {
			return // edited since: the stores give back nothing, the reference does not know
		}
	}
	var res limiter.Result
	if err := f.v.nodes[node].Do(context.Background(), &req, &res); err != nil {
		f.Fatal(err)
	}
	f.note("node %d: %s %q %+v", node, req.Op, req.ID, res.Limits)
	f.tell(&req)
}

// What several nodes admit from their leases, the exact reference admits too,
// take by take at the very time it was admitted.
func TestModel_LeasesNeverPassTheLimit(t *testing.T) {
	for _, a := range limiter.Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			var near, far int64
			rapid.Check(t, func(rt *rapid.T) {
				v := newVirtual(t, rapid.IntRange(1, 4).Draw(rt, "nodes"), Options{DenyCache: 1000, HotRate: 1})
				l := drawWide(rt, a)
				exact := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 30, Window: 100}
				truth := memstore.New(memstore.Options{Clock: v.clock.Now})
				rt.Cleanup(func() { _ = truth.Close() })
				f := &fleet{
					T: rt, v: v, truth: truth,
					leased: limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotLeased},
					narrow: limiter.Ask{Key: bucket(exact), Limit: exact, Weight: 1},
				}
				if a == limiter.Concurrency {
					f.leased.Weight = 0
					f.leased.Limit.Count = 0
				}
				for range rapid.IntRange(1, 40).Draw(rt, "steps") {
					v.clock.Advance(rapid.SampledFrom([]int64{0, 0, 1, 3, 10, 50, 99, 100, 250, 1000, 7000}).Draw(rt, "ms"))
					node := rapid.IntRange(0, len(v.nodes)-1).Draw(rt, "node")
					switch rapid.IntRange(0, 19).Draw(rt, "what") {
					case 0:
						v.tidy()
					case 1:
						f.undo(node)
					case 2:
						if a != limiter.Concurrency && a != limiter.GCRA {
							// Another rate of gcra is read at the next look, also of a
							// take that is denied. Another window, and a higher rate of a bucket, are
							// read from when a lease was taken, not from when its last unit was spent.
							// A limit that was in force before does not come back: a node that saw no
							// request meanwhile would spend what it leased under it (docs/hotkeys.md).
							next, edited := drawWide(rt, a), f.leased.Limit
							if a.Bucketed() {
								next.Count = min(next.Count, edited.Count)
							}
							edited.Count, edited.Burst = next.Count, next.Burst
							if slices.Contains(f.before, edited) {
								continue
							}
							f.before = append(f.before, f.leased.Limit)
							f.leased.Limit = edited
							f.note("edited to %+v", f.leased.Limit)
						}
					default:
						if a != limiter.Concurrency {
							f.take(node)
						}
					}
				}
				for _, s := range v.nodes {
					near += s.Stats().Spent
					far += s.Stats().Leases
				}
			})
			if (&limiter.Limit{Algorithm: a, Window: 1000, Buckets: 10, Count: 1}).Leasable() {
				t.Logf("%d units spent from %d leases", near, far)
				if near < 10*far || far == 0 {
					t.Errorf("%d units from %d leases: nothing to speak of was leased", near, far)
				}
			} else if far > 0 {
				t.Errorf("%d leases of an algorithm that is never leased", far)
			}
		})
	}
}

// busy is what a hot key's traffic looks like in these tests: takes of one unit,
// so many a millisecond on each node, for some seconds.
func (v *virtual) busy(t *testing.T, a limiter.Ask, perMS int, seconds int64) (passed int64) {
	t.Helper()
	for end := v.clock.Now() + seconds*1000; v.clock.Now() < end; v.clock.Advance(1) {
		for _, s := range v.nodes {
			for range perMS {
				if take(t, s, a).Allowed {
					passed++
				}
			}
		}
		if v.clock.Now()%50 == 0 {
			v.tidy()
		}
	}
	return passed
}

func TestSimulation_HotKeyCostsTheStoreAFiftiethOfItsTakes(t *testing.T) {
	for _, l := range []limiter.Limit{
		{Algorithm: limiter.FixedWindow, Count: 100_000, Window: 1000},
		{Algorithm: limiter.FixedWindow, Count: 6_000_000, Window: 60_000, Align: limiter.AlignFirstHit},
		{Algorithm: limiter.SlidingWindowCounter, Count: 100_000, Window: 1000},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 6_000_000, Window: 60_000, Buckets: 60},
		{Algorithm: limiter.TokenBucket, Count: 100_000, Burst: 100_000, Window: 1000},
		{Algorithm: limiter.LeakyBucket, Count: 6_000_000, Burst: 600_000, Window: 60_000},
		{Algorithm: limiter.GCRA, Count: 100_000, Burst: 100_000, Window: 1000},
	} {
		t.Run(fmt.Sprint(l.Algorithm, l.Window, l.Align), func(t *testing.T) {
			v := newVirtual(t, 2, Options{DenyCache: 1000, HotRate: 1000})
			a := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotLeased}
			v.busy(t, a, 5, 1) // turns hot
			v.inner.n.Store(0)
			const seconds = 5
			asked := int64(2 * 5 * 1000 * seconds)
			if passed := v.busy(t, a, 5, seconds); passed != asked {
				t.Errorf("%d of %d passed, all are under the limit", passed, asked)
			}
			n := v.inner.n.Load()
			t.Logf("%d takes, %d requests of the store, %d times fewer", asked, n, asked/max(1, n))
			if n*50 > asked {
				t.Errorf("%d takes made %d requests of the store, want at most a fiftieth", asked, n)
			}
		})
	}
}

// At a limit that is asked far too much, what passes stays under it by no more
// than the leases that the nodes hold at the end of a window.
func TestSimulation_UnderUseOfLeasesIsBounded(t *testing.T) {
	const limit, nodes = 20_000, 3
	for _, a := range []limiter.Algorithm{limiter.FixedWindow, limiter.SlidingWindowCounter} {
		t.Run(a.String(), func(t *testing.T) {
			v := newVirtual(t, nodes, Options{DenyCache: 1000, HotRate: 1000})
			l := limiter.Limit{Algorithm: a, Count: limit, Window: 1000}
			ask := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotLeased}
			v.busy(t, ask, 20, 1)
			v.inner.n.Store(0)
			const seconds = 4
			passed := v.busy(t, ask, 20, seconds) // 60,000 a second
			if passed > limit*seconds {
				t.Errorf("%d passed in %d windows of %d", passed, seconds, limit)
			}
			under := float64(limit*seconds-passed) / (limit * seconds)
			asked := int64(20 * nodes * 1000 * seconds)
			t.Logf("%.2f %% under the limit; %d takes, %d requests of the store", under*100, asked, v.inner.n.Load())
			if under > 0.02 {
				t.Errorf("%.2f %% under the limit, want at most 2", under*100)
			}
			if v.inner.n.Load()*50 > asked {
				t.Errorf("%d takes made %d requests of the store", asked, v.inner.n.Load())
			}
		})
	}
}

func TestLease_ColdKeyIsAskedExactlyAndGivesBack(t *testing.T) {
	for name, end := range map[string]func(*virtual){
		"turned cold": func(v *virtual) {
			for range 3 {
				v.clock.Advance(1000)
				v.tidy()
			}
		},
		"closed": func(v *virtual) { _ = v.nodes[0].Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			v := newVirtual(t, 1, Options{HotRate: 1000})
			l := limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 1_000_000, Window: 60_000}
			a := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotLeased}
			s := v.nodes[0]
			for range 999 {
				take(t, s, a)
			}
			if st := s.Stats(); st.Hot != 0 || st.Leases != 0 {
				t.Fatalf("not hot yet, and %+v", st)
			}
			for range 51 {
				take(t, s, a)
			}
			if st := s.Stats(); st.Hot != 1 || st.Leases == 0 || st.TurnedHot != 1 {
				t.Fatalf("hot, and %+v", st)
			}
			if top := s.HotKeys(5); len(top) != 1 || !top[0].Hot || top[0].State != limiter.HotLeased || top[0].Rate != 1050 ||
				top[0].Key != a.Key {
				t.Fatalf("listed %+v", top)
			}
			end(v)
			a.Weight = 0
			if used := l.Count - send(t, v.inner, limiter.OpPeek, "", a).Limits[0].Remaining; used != 1050 {
				t.Errorf("the store holds %d, want the 1050 that passed", used)
			}
			if st := s.Stats(); st.Returned == 0 || st.Lost != 0 {
				t.Errorf("gave back %+v", st)
			}
			if name == "turned cold" {
				n := v.inner.n.Load()
				a.Weight = 1
				take(t, s, a)
				take(t, s, a)
				if v.inner.n.Load() != n+2 {
					t.Error("a cold key was not asked exactly")
				}
			}
		})
	}
}

func TestLease_OtherLimitDeniesAndTheUnitsReturn(t *testing.T) {
	v := newVirtual(t, 1, Options{HotRate: 1})
	s := v.nodes[0]
	wide := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1_000_000, Window: 60_000}
	a := limiter.Ask{Key: bucket(wide), Limit: wide, Weight: 1, Hot: limiter.HotLeased}
	b := limiter.Ask{Key: bucket(oneAMinute), Limit: oneAMinute, Weight: 1}
	take(t, s, a) // takes a lease
	first := take(t, s, a, b)
	before := v.inner.n.Load()
	for range 10 {
		res := take(t, s, a, b)
		if res.Allowed || !res.Limits[0].Allowed || res.Limits[1].Allowed {
			t.Fatalf("got %+v", res)
		}
		if res.Limits[0].Remaining != first.Limits[0].Remaining {
			t.Fatalf("%d remain of the leased limit, want %d as before", res.Limits[0].Remaining, first.Limits[0].Remaining)
		}
	}
	if n := v.inner.n.Load() - before; n != 10 {
		t.Errorf("asked the store %d times, want 10: the other limit each time", n)
	}
	_ = s.Close(context.Background())
	a.Weight = 0
	if used := wide.Count - send(t, v.inner, limiter.OpPeek, "", a).Limits[0].Remaining; used != 2 {
		t.Errorf("the store holds %d, want the 2 that passed", used)
	}
}

func TestLease_OutageIsTheStoresError(t *testing.T) {
	v := newVirtual(t, 1, Options{DenyCache: 100, HotRate: 1})
	s := v.nodes[0]
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1_000_000, Window: 60_000}
	a := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotLeased}
	take(t, s, a)
	down := &limiter.StoreError{Cause: limiter.CauseConnection, Err: context.DeadlineExceeded}
	v.inner.fail = func(*limiter.Request) error { return down }
	failed := 0
	for range 10_000 {
		var res limiter.Result
		if err := s.Do(context.Background(), &limiter.Request{Asks: []limiter.Ask{a}}, &res); err != nil {
			if limiter.CauseOf(err) != limiter.CauseConnection {
				t.Fatal(err)
			}
			failed++
		}
	}
	if spent := 10_000 - failed; spent == 0 || int64(spent) > s.Stats().Leased {
		t.Errorf("%d passed without the store, the leases held %d", spent, s.Stats().Leased)
	}
	v.inner.fail = nil
	v.clock.Advance(1000)
	if !take(t, s, a).Allowed {
		t.Error("denied after the outage")
	}
}

func TestLease_ResetForgetsSlicesToo(t *testing.T) {
	v := newVirtual(t, 2, Options{HotRate: 1})
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1000, Window: 60_000}
	a := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1, Hot: limiter.HotLeased}
	for range 20 {
		take(t, v.nodes[0], a)
		take(t, v.nodes[1], a)
	}
	send(t, v.nodes[0], limiter.OpReset, "", a)
	passed := 0
	for range 3000 {
		for _, s := range v.nodes {
			if take(t, s, a).Allowed {
				passed++
			}
		}
	}
	if passed > 1000 {
		t.Errorf("%d passed after a reset, the limit is 1000", passed)
	}
}
