package updates

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/region"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// Two nodes of a region that has lost its data, while a third region is gone: they do not keep each other from ending
// the restore.
func TestRestore_TwoNodesEndARestoreThoughARegionIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us", "asia")
		us := w.places["us"]
		other := w.join("us", "us2", interval/3, us.opt.Client)
		store := losable(us, other)
		w.run(func() {
			us.spend(t, ada, 20)
			pass(time.Second)
			w.close(func(from, to string) bool { return from == "asia" || to == "asia" })
			pass(5 * time.Second)
			w.left(t, "before the loss", map[string]int64{"eu": 80, "us": 80})
			store.lose(us, other)
			us.spend(t, ada, 5)
			pass(10 * time.Second)
			w.left(t, "after 10 s", map[string]int64{"eu": 75, "us": 75})
			pass(2 * time.Minute)
			w.left(t, "after two minutes", map[string]int64{"eu": 75, "us": 75})
			w.setCut(false)
			pass(20 * time.Second)
			w.left(t, "after the third region is back", map[string]int64{"eu": 75, "us": 75, "asia": 75})
		})
	})
}

// The same at the first start of two regions of three.
func TestRestore_TwoNodesBeginThoughARegionIsNotThereYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us", "asia")
		us := w.places["us"]
		other := w.join("us", "us2", interval/3, us.opt.Client)
		losable(us, other).lose(us, other)
		w.close(func(from, to string) bool { return from == "asia" || to == "asia" })
		w.run(func() {
			us.spend(t, ada, 20)
			pass(35 * time.Second)
			w.left(t, "35 s after the start", map[string]int64{"eu": 80, "us": 80})
		})
	})
}

// A region whose Redis was emptied learns from the others what they have spent in logs.
func TestRestore_ALogIsRestored(t *testing.T) {
	all := servers(t, 1, "eu", "us")
	limit := limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 100, Window: 3_600_000}
	set, err := match.Compile([]rules.Rule{{ID: 1, Name: "r", Scope: "user", Limit: 100, WindowMS: 3_600_000,
		Algorithm: "sliding_window_log", Span: rules.SpanGlobal, IsActive: true}}, 7, match.Options{Regions: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		s.nodes[0].opt.Sets.Store(set)
	}
	ask := func(s *server, op limiter.Op, key limiter.Key, units int64) int64 {
		var res limiter.Result
		req := limiter.Request{Op: op, Asks: []limiter.Ask{{Key: key, Spans: true, Weight: units, Limit: limit}}}
		if err := s.nodes[0].store.Do(t.Context(), &req, &res); err != nil {
			t.Fatal(err)
		}
		return res.Limits[0].Remaining
	}
	us, eu := all["us"], all["eu"]
	var keys []limiter.Key
	for i := range 30 {
		key := limiter.Key(fmt.Sprintf("{user:u%d}|1|sl", i))
		keys = append(keys, key)
		ask(us, limiter.OpTake, key, 20)
		ask(eu, limiter.OpTake, key, 10)
	}
	wrong := func() (n int, lefts []int64) {
		for _, key := range keys {
			left, there := ask(us, limiter.OpPeek, key, 0), ask(eu, limiter.OpPeek, key, 0)
			if left != 70 || there != 70 {
				n++
			}
			lefts = append(lefts, left)
		}
		return n, lefts
	}
	wait := func(when string) {
		var n int
		var lefts []int64
		for range 100 {
			if n, lefts = wrong(); n == 0 {
				return
			}
			<-time.After(50 * time.Millisecond)
		}
		t.Errorf("%s: us has another number left than 70 of %d of %d keys: %v", when, n, len(keys), lefts)
	}
	wait("at first")
	us.loses(t)
	wait("after the loss")
}

// many knows many buckets with many windows.
type many struct {
	limiter.Exporter

	buckets int
	sums    []limiter.Sums
}

// Recall returns a thousand at a time, as a Redis does.
func (m many) Recall(_ context.Context, _, cursor string) (known []limiter.Exported, next string, err error) {
	first, _ := strconv.Atoi(cursor)
	for i := first; i < min(first+1000, m.buckets); i++ {
		known = append(known, limiter.Exported{Key: limiter.Key(fmt.Sprintf("{user:u%d}|1|sb", i)),
			Sums: m.sums[i%len(m.sums)]})
	}
	if first+1000 < m.buckets {
		next = strconv.Itoa(first + 1000)
	}
	return known, next, nil
}

// A page is never longer than what the region that asks reads of it.
func TestRestore_APageIsNoLongerThanItMayBe(t *testing.T) {
	w := newWorld(t, "eu", "us")
	eu := w.places["eu"]
	set, err := match.Compile([]rules.Rule{{ID: 1, Name: "r", Scope: "user", Limit: 100_000_000, WindowMS: 86_400_000,
		Algorithm: "sliding_window_buckets", Buckets: new(int64(1440)), Span: rules.SpanGlobal, IsActive: true}}, 7,
		match.Options{Regions: 2})
	if err != nil {
		t.Fatal(err)
	}
	eu.opt.Sets.Store(set)
	m := many{Exporter: eu.store, buckets: pageBuckets}
	now := time.Now().UnixMilli() * 1440 / 86_400_000
	for range 400 {
		s := limiter.Sums{Born: time.Now().UnixMilli(), Shape: 86_400_000*(limiter.MaxBuckets+1) + 1440}
		for j := range int64(1440) {
			u := rand.Int64N(60_000) // bytes
			s.Windows = append(s.Windows, limiter.WindowUnits{Number: now - j, Units: u})
			s.Taken += u
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		m.sums = append(m.sums, s)
	}
	eu.opt.Store = m
	began := time.Now()
	page, err := eu.Recall(t.Context(), EncodeAsk(&Ask{Head: region.Head{From: "us", To: "eu",
		Prefix: "sl:", At: 1}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a page of %d bytes in %v", len(page), time.Since(began))
	if len(page) > MaxPage {
		t.Errorf("a page of %d buckets has %d bytes, and %d are read", m.buckets, len(page), MaxPage)
	}
	for _, p := range w.places {
		_ = p.store.Close()
	}
}

// A region that does not have a rule yet when it is restored counts what was spent under it as soon as it has it.
func TestRestore_WhatWasSpentUnderARuleThatIsNotKnownYetIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		us := w.places["us"]
		store := losable(us)
		w.run(func() {
			us.spend(t, ada, 20)
			pass(time.Second)
			us.opt.Sets.Store(setOf(t, 6))
			store.lose(us)
			pass(2 * time.Second)
			us.opt.Sets.Store(setOf(t, 7, "r"))
			pass(5 * time.Second)
			w.left(t, "once the rule is known", map[string]int64{"eu": 80, "us": 80})
		})
	})
}

// What a node has exported and cannot send is restored, although another node of the region does it.
func TestRestore_WhatAnotherNodeHasExportedIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		us := w.places["us"]
		store := losable(us)
		other := w.join("us", "us2", interval/3, &http.Client{Transport: noRoute{}})
		other.opt.Store, other.opt.Apply = store, store
		w.run(func() {
			us.spend(t, ada, 20)
			pass(time.Second + interval/7) // no node exports at this instant
			us.spend(t, ada, 10)
			sums, err := store.Export(t.Context(), 10, time.Hour)
			if err != nil || len(sums) != 1 {
				t.Errorf("exported %v, %v", sums, err)
			}
			other.mu.Lock()
			other.box.Add(sums)
			other.mu.Unlock()
			store.lose(us, other)
			us.spend(t, ada, 1)
			pass(3 * time.Second)
			w.left(t, "after the loss", map[string]int64{"eu": 69, "us": 69})
		})
	})
}

// half is the store of a cluster of which one shard holds keys and does not answer.
type half struct {
	*replaceable

	keys  []limiter.Key
	ended atomic.Int64
}

func (h *half) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		c := &calls[i]
		if slices.Contains(h.keys, c.Request.Asks[0].Key) {
			c.Err = &limiter.StoreError{Cause: limiter.CauseConnection, Err: errors.New("no route")}
		} else {
			c.Err = h.Do(ctx, &c.Request, &c.Result)
		}
	}
}

func (h *half) EndRestore(ctx context.Context, name string, but ...limiter.Key) (bool, error) {
	for _, key := range h.keys {
		if !slices.Contains(but, key) {
			return false, fmt.Errorf("%s was refused, and the restore is ended for it", key)
		}
	}
	ended, err := h.replaceable.EndRestore(ctx, name)
	if ended {
		h.ended.Add(1)
	}
	return ended, err
}

// One shard is empty and another one does not answer. The restore of the first ends.
func TestRestore_AShardThatDoesNotAnswerKeepsNoOtherOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		eu, us := w.places["eu"], w.places["us"]
		h := &half{replaceable: losable(us), keys: []limiter.Key{"{user:bob}|1|fw", "{user:cy}|1|fw"}}
		us.opt.Store, us.opt.Apply = h, h
		w.run(func() {
			eu.spend(t, h.keys[0], 20)
			us.spend(t, h.keys[1], 20)
			us.spend(t, ada, 20)
			pass(time.Second)
			h.lose(us)
			us.spend(t, ada, 5)
			pass(2 * time.Second)
			if h.ended.Load() != 1 {
				t.Errorf("%d restores have ended", h.ended.Load())
			}
			w.left(t, "after the loss", map[string]int64{"eu": 75, "us": 75})
			if us.opt.Trouble.On(restoreFailing, "eu") {
				t.Error("the other region has answered")
			}
		})
	})
}

// A region that does not have a rule yet leaves its buckets out of its pages. It is asked again until it has the rules
// of the one that asks, and what is wrong is said if it never has.
func TestRestore_ARegionWithoutTheRuleIsAskedAgain(t *testing.T) {
	for _, follows := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "eu", "us")
			eu, us := w.places["eu"], w.places["us"]
			store := losable(us)
			w.run(func() {
				us.spend(t, ada, 20)
				pass(time.Second)
				eu.opt.Sets.Store(setOf(t, 6))
				store.lose(us)
				pass(2 * time.Second)
				left := int64(100)
				if follows {
					eu.opt.Sets.Store(setOf(t, 7, "r"))
					left = 80
				}
				pass(askWait)
				w.left(t, "after the restore", map[string]int64{"us": left})
				if us.opt.Trouble.On(restoreFailing, "eu") == follows {
					t.Errorf("its rules follow: %v, and that is in trouble", follows)
				}
			})
		})
	}
}
