package home

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/memstore"
)

// hooked is a store that does something after it has decided the n-th take of a key.
type hooked struct {
	limiter.Store
	key   limiter.Key
	n     atomic.Int64
	after func()
}

func (h *hooked) DoAll(ctx context.Context, calls []limiter.Call) {
	h.Store.DoAll(ctx, calls)
	for i := range calls {
		if r := &calls[i].Request; r.Op == limiter.OpTake && r.Asks[0].Key == h.key && h.n.Add(-1) == 0 {
			h.after()
		}
	}
}

// hook makes a region do something after the n-th take of a key.
func (p *place) hook(n int64, key limiter.Key, after func()) {
	h := &hooked{Store: p.opt.Store, key: key, after: after}
	h.n.Store(n)
	p.opt.Store, p.inner = h, h
}

// A repeat in another region, while the first is under way, does not rely on a charge that is given back.
func TestStore_ARepeatMeanwhileDoesNotRelyOnWhatIsGivenBack(t *testing.T) {
	w := onMemory(t, names...)
	a, b := ask(at("eu", 0), 10, 1), ask(at("us", 0), 10, 1)
	var second limiter.Result
	w["eu"].hook(1, a.Key, func() { // the first has taken a, and will get no answer about b
		w["us"].loseAnswers(true)
		second = w["us"].do(t, limiter.OpTake, "x", a, b)
	})
	var first limiter.Result
	err := w["eu"].Do(t.Context(), &limiter.Request{Op: limiter.OpTake, ID: "x", Asks: []limiter.Ask{a, b}}, &first)
	if err == nil || !second.Allowed {
		t.Fatalf("the first %v %v, the second %v", first.Allowed, err, second.Allowed)
	}
	if left(t, w, a) != 9 || left(t, w, b) != 9 {
		t.Errorf("the repeat was admitted, %d and %d of 10 are left", left(t, w, a), left(t, w, b))
	}
}

// A check is denied at its second home after it was allowed at the first. A repeat in a third region is answered by the
// record of the first home and has room at the second. What the check gives back then is what the repeat relies on.
func TestStore_WhatARepeatReliesOnIsNotGivenBack(t *testing.T) {
	for _, c := range []struct {
		name              string
		meanwhile, denied bool // the check gives back between the two takes of the repeat; the repeat is denied, too
	}{{name: "repeat first"}, {name: "meanwhile", meanwhile: true}, {"both denied", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			w := onMemory(t, names...)
			a, b := ask(at("asia", 0), 10, 1), ask(at("us", 0), 1, 1) // takes go in the order of the names
			w["eu"].do(t, limiter.OpTake, "full", b)
			var again limiter.Result
			repeated, checked := make(chan struct{}), make(chan struct{})
			repeat := func() {
				defer close(repeated)
				var err error
				req := limiter.Request{ID: "x", Asks: []limiter.Ask{a, b}}
				if err = w["eu"].Do(t.Context(), &req, &again); err != nil {
					t.Error(err)
				}
			}
			if c.meanwhile {
				w["asia"].hook(2, a.Key, func() { <-checked })
			}
			w["us"].hook(1, b.Key, func() { // the check is denied, and does not know it yet
				if !c.denied {
					w["eu"].do(t, limiter.OpRefund, "full", b)
				}
				go repeat()
				if !c.meanwhile {
					<-repeated
				}
			})
			res := w["eu"].do(t, limiter.OpTake, "x", a, b)
			close(checked)
			<-repeated
			want := int64(9)
			if c.denied {
				want = 10
			}
			if res.Allowed || again.Allowed == c.denied {
				t.Fatalf("the check %+v, the repeat %+v", res, again)
			}
			if left(t, w, a) != want || left(t, w, b) != 0 {
				t.Errorf("%d of 10 left, want %d; %d of 1", left(t, w, a), want, left(t, w, b))
			}
			if !c.denied {
				if third := w["asia"].do(t, limiter.OpTake, "x", a, b); !third.Replayed || left(t, w, a) != want {
					t.Errorf("a later repeat %+v, %d left", third, left(t, w, a))
				}
			}
		})
	}
}

// A check fails at its second home after it was allowed at the first, and keeps what it took for its repeat. The repeat
// is denied, so nobody relies on it any more.
func TestStore_ADeniedRepeatGivesBackWhatAFailedCheckTook(t *testing.T) {
	w := onMemory(t, names...)
	a, b := ask(at("asia", 0), 10, 1), ask(at("us", 0), 1, 1) // takes go in the order of the names
	w["eu"].do(t, limiter.OpTake, "full", b)
	w["us"].loseAnswers(true)
	req, res := limiter.Request{ID: "x", Asks: []limiter.Ask{a, b}}, limiter.Result{}
	if err := w["eu"].Do(t.Context(), &req, &res); err == nil {
		t.Fatalf("the check was answered: %+v", res)
	}
	w["us"].loseAnswers(false)
	if res := w["eu"].do(t, limiter.OpTake, "x", a, b); res.Allowed {
		t.Fatalf("the repeat was allowed: %+v", res)
	}
	if got := left(t, w, a); got != 10 {
		t.Errorf("nothing was ever allowed, and %d of 10 are left", got)
	}
}

// A failed check leaves its leases: no record says whether a repeat, which may have been allowed meanwhile, was told
// that it holds them.
func TestStore_AFailedCheckLeavesTheLeaseOfARepeat(t *testing.T) {
	w := onMemory(t, names...)
	a, b := ask(at("asia", 0), 10, 1), ask(at("us", 0), 10, 1)
	for _, l := range []*limiter.Limit{&a.Limit, &b.Limit} {
		*l = limiter.Limit{Algorithm: limiter.Concurrency, Count: 10, Window: 86_400_000}
	}
	var repeat limiter.Result
	w["us"].hook(1, b.Key, func() { repeat = w["us"].do(t, limiter.OpTake, "x", a, b) })
	w["us"].loseAnswers(true)
	req, res := limiter.Request{ID: "x", Asks: []limiter.Ask{a, b}}, limiter.Result{}
	if err := w["eu"].Do(t.Context(), &req, &res); err == nil || !repeat.Allowed {
		t.Fatalf("the check %v, the repeat %+v", err, repeat)
	}
	if left(t, w, a) != 9 || left(t, w, b) != 9 {
		t.Errorf("the repeat was allowed, and %d and %d of 10 are left", left(t, w, a), left(t, w, b))
	}
}

// repeats sends checks with two or three limits and a few ids, each id several times, from all regions, while others
// come and go at the homes. In the end each home holds a unit for each id that was ever allowed, and no other. Checks
// may fail only if the link loses messages.
func repeats(t *testing.T, w map[string]*place, names []string, key int, r *rand.Rand, loses bool,
	pause func(time.Duration)) {
	t.Helper()
	var asks []limiter.Ask
	for i, name := range names {
		if i < 2 || r.IntN(2) == 0 {
			for ; Of(keyOf(key), names) != name; key++ {
			}
			asks = append(asks, ask(keyOf(key), 1+r.Int64N(3), 1))
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	allowed := map[string]bool{}
	soon := func() time.Duration { return time.Duration(r.Int64N(int64(100 * time.Millisecond))) }
	for id := range 3 {
		for range 1 + r.IntN(4) {
			from, wait := w[names[r.IntN(len(names))]], soon()
			req := limiter.Request{ID: fmt.Sprint("id ", id), Asks: asks}
			wg.Go(func() {
				var res limiter.Result
				pause(wait)
				if err := from.Do(t.Context(), &req, &res); err != nil {
					if !loses {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				defer mu.Unlock()
				allowed[req.ID] = allowed[req.ID] || res.Allowed
			})
		}
	}
	for i, a := range asks {
		begin, end, home := soon(), soon(), w[Of(a.Key, names)].inner
		a.Weight = 1 + r.Int64N(a.Limit.Count)
		wg.Go(func() {
			for _, op := range []limiter.Op{limiter.OpTake, limiter.OpRefund} {
				var res limiter.Result
				pause(begin)
				if err := home.Do(t.Context(), &limiter.Request{Op: op, ID: fmt.Sprint("other ", i), Asks: []limiter.Ask{a}},
					&res); err != nil {
					t.Error(err)
				}
				begin = end
			}
		})
	}
	wg.Wait()
	pause(30 * time.Second) // what was lost is given back
	held := int64(0)
	for id, was := range allowed {
		if !was {
			continue
		}
		held++
		var res limiter.Result
		if err := w[names[0]].Do(t.Context(), &limiter.Request{ID: id, Asks: asks}, &res); err != nil || !res.Replayed {
			t.Errorf("%s was allowed, and later: %v %+v", id, err, res)
		}
	}
	for _, a := range asks {
		if got := a.Limit.Count - left(t, w, a); got != held {
			t.Errorf("%d of %d units are held for %d ids that were allowed: %v", got, a.Limit.Count, held, allowed)
		}
	}
}

func TestStore_ConcurrentRepeatsHoldWhatTheyWereAllowed(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))    //nolint:gosec // a load
			link := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // delays
			var mu sync.Mutex
			began := time.Now()
			memory := &memoryLink{
				delay: func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					return time.Duration(link.Int64N(int64(40 * time.Millisecond)))
				},
				loses: func(*message) bool { // every message arrives, some answers do not
					mu.Lock()
					defer mu.Unlock()
					return time.Since(began) < 5*time.Second && link.IntN(3) == 0
				},
			}
			some := names[:2+seed%2]
			stores := map[string]limiter.Store{}
			for _, name := range some {
				m := memstore.New(memstore.Options{})
				t.Cleanup(func() { _ = m.Close() })
				stores[name] = m
			}
			w := worldOver(t, 2*time.Second, stores, memory)
			repeats(t, w, some, 0, r, true, func(d time.Duration) { <-time.After(d) })
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestStore_ConcurrentRepeatsHoldWhatTheyWereAllowedInRedis(t *testing.T) {
	stores := map[string]limiter.Store{}
	for _, name := range names {
		stores[name] = onRedis(t, testenv.Redis(t), nil)
	}
	w := world(t, 10*time.Second, stores)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))                                      //nolint:gosec // a load
		repeats(t, w, names, 10_000*int(seed), r, false, func(time.Duration) {}) //nolint:gosec // small
	}
}
