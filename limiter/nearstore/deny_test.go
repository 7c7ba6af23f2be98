package nearstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/limiter"
	"sluice/limiter/memstore"
)

// drawLimit draws a small limit of any algorithm, so that random traffic meets
// denials.
func drawLimit(t *rapid.T, label string, as ...limiter.Algorithm) limiter.Limit {
	if len(as) == 0 {
		as = limiter.Algorithms()
	}
	l := limiter.Limit{
		Algorithm: rapid.SampledFrom(as).Draw(t, label+" algorithm"),
		Count:     rapid.SampledFrom([]int64{0, 1, 2, 3, 5, 10}).Draw(t, label+" count"),
		Window:    rapid.SampledFrom([]int64{7, 50, 97, 1000, 60_000}).Draw(t, label+" window"),
	}
	switch {
	case l.Algorithm.Bucketed():
		l.Burst = rapid.SampledFrom([]int64{l.Count, 0, 1, 4}).Draw(t, label+" burst")
	case l.Algorithm == limiter.SlidingWindowBuckets:
		l.Buckets = rapid.SampledFrom([]int64{1, 3, 7}).Draw(t, label+" buckets")
	case l.Algorithm == limiter.FixedWindow && rapid.Bool().Draw(t, label+" first hit"):
		l.Align = limiter.AlignFirstHit
	}
	return l
}

// twins is the same random traffic put to nodes with a cache and to a store
// without one.
type twins struct {
	*rapid.T
	v      *virtual
	plain  limiter.Store
	keys   []limiter.Key
	limits []limiter.Limit
	log    string
}

func newTwins(t *testing.T, rt *rapid.T, nodes, limits int) *twins {
	tw := &twins{T: rt, v: newVirtual(t, nodes, Options{DenyCache: 1000})}
	m := memstore.New(memstore.Options{Clock: tw.v.clock.Now})
	rt.Cleanup(func() { _ = m.Close() })
	tw.plain = m
	who := entities.Add(1)
	for i := range limits {
		l := drawLimit(rt, "first")
		tw.limits = append(tw.limits, l)
		tw.keys = append(tw.keys, limiter.Key(fmt.Sprintf("{twins:%d}|%d|%s", who, i, l.Algorithm.Kind())))
	}
	return tw
}

// step lets time pass, forward only: what a stepping clock does is tested apart.
func (tw *twins) step() {
	tw.v.clock.Advance(rapid.SampledFrom([]int64{0, 0, 0, 1, 1, 2, 5, 20, 49, 50, 200, 999, 1000, 30_000}).Draw(tw.T,
		"ms"))
}

// both puts one request to a random node and to the plain store.
func (tw *twins) both(req *limiter.Request) (got, want limiter.Result, near bool) {
	node := tw.v.nodes[rapid.IntRange(0, len(tw.v.nodes)-1).Draw(tw.T, "node")]
	before := node.deny.answered.Load()
	errGot := node.Do(context.Background(), req, &got)
	errWant := tw.plain.Do(context.Background(), req, &want)
	near = node.deny.answered.Load() > before
	tw.log += fmt.Sprintf("%d %s %q %+v\n  -> %+v (near: %v)\n", tw.v.clock.Now(), req.Op, req.ID, req.Asks, want, near)
	if fmt.Sprint(errGot) != fmt.Sprint(errWant) {
		tw.Fatalf("%s\nwith the cache %v, without it %v", tw.log, errGot, errWant)
	}
	for i := range got.Limits { // above the limit the use may be that of a moment before
		if d, is := &got.Limits[i], &want.Limits[i]; near && d.Used > d.Limit && d.Used >= is.Used {
			d.Used = is.Used
		}
	}
	return got, want, near
}

// request draws one over the given limits.
func (tw *twins) request(which []int, ops []limiter.Op) *limiter.Request {
	req := &limiter.Request{
		Op: rapid.SampledFrom(ops).Draw(tw.T, "op"),
		ID: rapid.SampledFrom([]string{"", "", "", "", "a", "b"}).Draw(tw.T, "id"),
	}
	for _, i := range which {
		l := tw.limits[i]
		if l.Algorithm == limiter.Concurrency && req.Op == limiter.OpCharge {
			continue
		}
		if l.Algorithm == limiter.Concurrency && req.ID == "" {
			req.ID = "c"
		}
		w := rapid.SampledFrom([]int64{1, 1, 1, 1, 2, 3, 0, 11}).Draw(tw.T, "weight")
		req.Asks = append(req.Asks, limiter.Ask{Key: tw.keys[i], Limit: l, Weight: w})
	}
	return req
}

var everyOp = []limiter.Op{
	limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpTake,
	limiter.OpPeek, limiter.OpCharge, limiter.OpRefund, limiter.OpReset,
}

func TestModel_DenyCacheAnswersAsTheStoreWould(t *testing.T) {
	told := 0
	rapid.Check(t, func(rt *rapid.T) {
		tw := newTwins(t, rt, 1, 1)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			tw.step()
			if rapid.IntRange(0, 14).Draw(rt, "edit") == 0 {
				tw.limits[0] = drawLimit(rt, "edited", tw.limits[0].Algorithm)
			}
			req := tw.request([]int{0}, everyOp)
			if len(req.Asks) == 0 {
				continue
			}
			got, want, near := tw.both(req)
			if near {
				told++
			}
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("%s\n(-without the cache +with it):\n%s", tw.log, diff)
			}
		}
	})
	if told == 0 {
		t.Error("nothing was ever told from memory")
	}
}

// Beside a limit that denies for sure, others are shown as they were at most a
// second ago; whether the request passes, and what the sure ones say, is exact.
func TestModel_DenyCacheDecidesSeveralLimitsAsTheStoreWould(t *testing.T) {
	told := 0
	rapid.Check(t, func(rt *rapid.T) {
		tw := newTwins(t, rt, 1, 3)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			tw.step()
			which := [][]int{{0, 1}, {0, 1, 2}, {0}, {1, 2}, {2, 0}}[rapid.IntRange(0, 4).Draw(rt, "which")]
			req := tw.request(which, everyOp)
			if len(req.Asks) == 0 {
				continue
			}
			got, want, near := tw.both(req)
			if !near {
				if diff := cmp.Diff(want, got); diff != "" {
					rt.Fatalf("%s\n(-without the cache +with it):\n%s", tw.log, diff)
				}
				continue
			}
			told++
			if got.Allowed != want.Allowed || got.At != want.At {
				rt.Fatalf("%s\ngot %+v", tw.log, got)
			}
			for i := range got.Limits {
				if certainty(&req.Asks[i], &got.Limits[i]) > 0 && got.Limits[i] != want.Limits[i] {
					rt.Fatalf("%s\nlimit %d: got %+v, want %+v", tw.log, i, got.Limits[i], want.Limits[i])
				}
			}
		}
	})
	if told == 0 {
		t.Error("nothing was ever told from memory")
	}
}

func TestModel_DenyCacheForgetsWhatOthersGiveBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tw := newTwins(t, rt, 3, 1)
		ops := []limiter.Op{limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpPeek, limiter.OpRefund,
			limiter.OpReset}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			tw.step()
			got, want, _ := tw.both(tw.request([]int{0}, ops))
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("%s\n(-without the cache +with it):\n%s", tw.log, diff)
			}
		}
	})
}

// oneAMinute is what one key may do in these tests.
var oneAMinute = limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 1, Window: 60_000}

func TestDenyCache_FloodFromADeniedKeyCostsTheStoreAlmostNothing(t *testing.T) {
	for _, l := range []limiter.Limit{
		oneAMinute,
		{Algorithm: limiter.FixedWindow, Count: 1, Window: 60_000},
		{Algorithm: limiter.SlidingWindowLog, Count: 1, Window: 60_000},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 1, Window: 60_000, Buckets: 60},
		{Algorithm: limiter.TokenBucket, Count: 1, Burst: 1, Window: 60_000},
		{Algorithm: limiter.GCRA, Count: 1, Burst: 1, Window: 60_000},
		{Algorithm: limiter.LeakyQueue, Count: 1, Burst: 1, Window: 60_000},
		{Algorithm: limiter.TokenBucket, Window: 60_000}, // blocks all
	} {
		t.Run(l.Algorithm.String(), func(t *testing.T) {
			v := newVirtual(t, 1, Options{DenyCache: 1000})
			wide := limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 1_000_000, Window: 60_000}
			asks := []limiter.Ask{{Key: bucket(l), Limit: l, Weight: 1}, {Key: bucket(wide), Limit: wide, Weight: 1}}
			take(t, v.nodes[0], asks...)
			v.inner.n.Store(0)
			for range 20_000 { // two seconds
				if v.clock.Now()%2 == 0 {
					asks[0], asks[1] = asks[1], asks[0]
				}
				if take(t, v.nodes[0], asks...).Allowed {
					t.Fatal("admitted")
				}
				if entities.Load()%10 == 0 {
					v.clock.Advance(1)
				}
				entities.Add(1)
			}
			if n := v.inner.n.Load(); n > 4 {
				t.Errorf("20,000 denied takes in 2 s asked the store %d times, want once a second", n)
			}
		})
	}
}

func TestDenyCache_DropsAtOnceWhatMayPassAgain(t *testing.T) {
	ask := func() limiter.Ask { return limiter.Ask{Key: bucket(oneAMinute), Limit: oneAMinute, Weight: 1} }
	for name, undo := range map[string]func(*testing.T, *Store, limiter.Ask){
		"refund": func(t *testing.T, s *Store, a limiter.Ask) { send(t, s, limiter.OpRefund, "", a) },
		"refund by id": func(t *testing.T, s *Store, a limiter.Ask) {
			if r := send(t, s, limiter.OpRefund, "first", a); r.Limits[0].Refunded != 1 {
				t.Fatalf("refunded %+v", r)
			}
		},
		"reset": func(t *testing.T, s *Store, a limiter.Ask) { send(t, s, limiter.OpReset, "", a) },
		"reset in a batch": func(t *testing.T, s *Store, a limiter.Ask) {
			calls := []limiter.Call{
				{Request: limiter.Request{Op: limiter.OpTake, Asks: []limiter.Ask{a}}},
				{Request: limiter.Request{Op: limiter.OpReset, Asks: []limiter.Ask{a}}},
				{Request: limiter.Request{Op: limiter.OpTake, Asks: []limiter.Ask{a}}},
				{Request: limiter.Request{Op: limiter.OpReset, Asks: []limiter.Ask{a}}},
			}
			s.DoAll(context.Background(), calls)
			if calls[0].Result.Allowed || !calls[2].Result.Allowed {
				t.Fatalf("the order of a batch does not hold: %+v", calls)
			}
		},
	} {
		for _, other := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/other node %v", name, other), func(t *testing.T) {
				v := newVirtual(t, 2, Options{DenyCache: 1000})
				s, a := v.nodes[0], ask()
				send(t, s, limiter.OpTake, "first", a)
				for range 3 {
					if take(t, s, a).Allowed {
						t.Fatal("admitted")
					}
				}
				if s.deny.answered.Load() != 2 {
					t.Fatalf("answered %d from memory, want 2", s.deny.answered.Load())
				}
				if other {
					undo(t, v.nodes[1], a)
				} else {
					undo(t, s, a)
				}
				if !take(t, s, a).Allowed {
					t.Error("still denied")
				}
			})
		}
	}
}

// What another region has spent makes no room, and what it has given back may.
func TestDenyCache_DropsWhatAnotherRegionGivesBack(t *testing.T) {
	v := newVirtual(t, 1, Options{DenyCache: 1000})
	s := v.nodes[0]
	a := limiter.Ask{Key: bucket(oneAMinute), Limit: oneAMinute, Weight: 1, Spans: true}
	fromMemory := func() bool {
		before := s.deny.answered.Load()
		take(t, s, a)
		return s.deny.answered.Load() > before
	}
	apply := func(sums limiter.Sums) {
		t.Helper()
		sums.Born = v.clock.Now()
		req := limiter.Request{Op: limiter.OpApply, ID: "us", Asks: []limiter.Ask{{Key: a.Key, Limit: a.Limit, Spans: true}},
			Sums: &sums}
		var res limiter.Result
		if err := s.Do(t.Context(), &req, &res); err != nil {
			t.Fatal(err)
		}
	}
	take(t, s, a)
	take(t, s, a) // denied by the store
	if !fromMemory() {
		t.Fatal("a denial is not remembered")
	}
	apply(limiter.Sums{Taken: 2})
	if !fromMemory() {
		t.Error("what another region spent drops a denial")
	}
	apply(limiter.Sums{Taken: 2, Given: 1})
	if fromMemory() {
		t.Error("what another region gave back does not drop a denial")
	}
}

func TestDenyCache_LostMessageHealsWithinASecond(t *testing.T) {
	v := newVirtual(t, 2, Options{DenyCache: 1000})
	a := limiter.Ask{Key: bucket(oneAMinute), Limit: oneAMinute, Weight: 1}
	take(t, v.nodes[0], a)
	take(t, v.nodes[0], a)
	v.nodes[1].opt.Tell = nil
	send(t, v.nodes[1], limiter.OpReset, "", a)
	v.clock.Advance(999)
	if take(t, v.nodes[0], a).Allowed {
		t.Fatal("the test does not hold: the message arrived")
	}
	v.clock.Advance(1)
	if !take(t, v.nodes[0], a).Allowed {
		t.Error("still denied after a second")
	}
}

func TestDenyCache_NamedRequestGetsItsStoredAnswer(t *testing.T) {
	v := newVirtual(t, 1, Options{DenyCache: 1000})
	a := limiter.Ask{Key: bucket(oneAMinute), Limit: oneAMinute, Weight: 1}
	s := v.nodes[0]
	send(t, s, limiter.OpTake, "mine", a)
	take(t, s, a)
	if r := send(t, s, limiter.OpTake, "mine", a); !r.Allowed || !r.Replayed {
		t.Errorf("the repeat got %+v, want the stored answer", r)
	}
}

func TestDenyCache_EditedLimitIsAnother(t *testing.T) {
	v := newVirtual(t, 1, Options{DenyCache: 1000})
	a := limiter.Ask{Key: bucket(oneAMinute), Limit: oneAMinute, Weight: 1}
	s := v.nodes[0]
	take(t, s, a)
	take(t, s, a)
	a.Limit.Count = 2
	if !take(t, s, a).Allowed {
		t.Error("the raised limit still denies")
	}
}

// A store whose clock steps may be told wrongly of for a second at most, and
// nothing passes that it would deny.
func TestDenyCache_SteppedClockDeniesForASecondAtMost(t *testing.T) {
	v := newVirtual(t, 1, Options{DenyCache: 1000})
	s := v.nodes[0]
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1, Window: 60_000}
	a := limiter.Ask{Key: bucket(l), Limit: l, Weight: 1}
	take(t, s, a)
	take(t, s, a)
	for _, ms := range []int64{-30_000, -1, 30_000} {
		v.clock.Advance(ms)
		if take(t, s, a).Allowed {
			t.Errorf("admitted after a step of %d ms", ms)
		}
	}
	v.clock.Advance(60_001)
	if !take(t, s, a).Allowed {
		t.Error("still denied in another window")
	}
}

func TestDenyCache_AnswerUnderWayIsNotRememberedAfterADrop(t *testing.T) {
	v := newVirtual(t, 1, Options{DenyCache: 1000})
	s := v.nodes[0]
	a := limiter.Ask{Key: bucket(oneAMinute), Limit: oneAMinute, Weight: 1}
	take(t, s, a)
	r := &request{req: &limiter.Request{Asks: []limiter.Ask{a}}}
	var res limiter.Result
	if s.answer(t.Context(), r, &res) {
		t.Fatal("answered without the store")
	}
	if err := v.inner.Do(t.Context(), r.out, &res); err != nil {
		t.Fatal(err)
	}
	send(t, s, limiter.OpReset, "", a) // while the denial travels
	s.learn(r, &res, nil)
	if !take(t, s, a).Allowed {
		t.Error("a denial from before the reset was remembered")
	}
}

func TestDenyCache_StaysBounded(t *testing.T) {
	v := newVirtual(t, 1, Options{DenyCache: 100})
	s := v.nodes[0]
	for range 5000 {
		a := limiter.Ask{Key: bucket(oneAMinute), Limit: oneAMinute, Weight: 2}
		a.Limit.Count = 0
		take(t, s, a)
	}
	if n := s.Stats().Held; n > 120 {
		t.Errorf("holds %d buckets, want about 100", n)
	}
	v.clock.Advance(2000)
	v.tidy()
	if n := s.Stats().Held; n != 0 {
		t.Errorf("holds %d buckets after they have ended", n)
	}
}
