package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/limiter"
)

// Storm checks that nothing is lost or gained when many callers on two nodes take at
// once. Windows are so long that exactly the limit must pass.
func Storm(t *testing.T, h Harness) {
	for _, a := range limiter.Algorithms() {
		t.Run("ExactlyTheLimitPasses/"+a.String(), func(t *testing.T) { exactlyTheLimit(t, h, a) })
	}
	t.Run("WideLimitIsChargedOnlyForWhatPassed", func(t *testing.T) { wideAndNarrow(t, h) })
	t.Run("OverlappingKeysInAnyOrder", func(t *testing.T) { overlapping(t, h) })
	t.Run("RepeatsOfOneIDSpendOnce", func(t *testing.T) { repeatsAtOnce(t, h) })
	t.Run("TakesAndRefundsBalance", func(t *testing.T) { takesAndRefunds(t, h) })
	t.Run("OneBanBegins", func(t *testing.T) { banStorm(t, h, false) })
	t.Run("OneBanBeginsBesideALimitWithRoom", func(t *testing.T) { banStorm(t, h, true) })
}

const (
	stormCallers = 16
	stormCalls   = 40
	stormLimit   = 311
	// tenYears keeps a window from ending, or a bucket from draining a unit,
	// during the storm.
	tenYears = limiter.MaxWindow
)

// pair returns two nodes with one backend and its own clock.
func pair(t *testing.T, h Harness) [2]limiter.Store {
	if h.Pair != nil {
		a, b := h.Pair(t)
		return [2]limiter.Store{a, b}
	}
	s := h.New(t, nil)
	return [2]limiter.Store{s, s}
}

// slowLimit is a limit of n units that does not refill during a storm.
func slowLimit(a limiter.Algorithm, n int64) limiter.Limit {
	l := limiter.Limit{Algorithm: a, Count: n, Window: tenYears}
	switch a.Traits().Setting {
	case limiter.SettingBurst:
		l.Count, l.Burst = 1, n
	case limiter.SettingBuckets:
		l.Buckets = 60
	case limiter.SettingAlign:
		l.Align = limiter.AlignFirstHit
	}
	return l
}

// runCallers runs stormCallers callers, half of them on each node. Each makes
// stormCalls calls, single or in batches of four.
func runCallers(
	t *testing.T, nodes [2]limiter.Store,
	request func(caller, call int) limiter.Request, answer func(caller, call int, res limiter.Result),
) {
	t.Helper()
	var wg sync.WaitGroup
	for caller := range stormCallers {
		wg.Go(func() {
			node := nodes[caller%2]
			for call := 0; call < stormCalls; call += 4 {
				if caller%4 < 2 {
					batch := make([]limiter.Call, 4)
					for i := range batch {
						batch[i].Request = request(caller, call+i)
					}
					node.DoAll(context.Background(), batch)
					for i := range batch {
						if batch[i].Err != nil {
							t.Errorf("caller %d: %v", caller, batch[i].Err)
							return
						}
						answer(caller, call+i, batch[i].Result)
					}
					continue
				}
				for i := range 4 {
					req := request(caller, call+i)
					var res limiter.Result
					if err := node.Do(context.Background(), &req, &res); err != nil {
						t.Errorf("caller %d: %v", caller, err)
						return
					}
					answer(caller, call+i, res)
				}
			}
		})
	}
	wg.Wait()
}

func exactlyTheLimit(t *testing.T, h Harness, a limiter.Algorithm) {
	nodes := pair(t, h)
	asks := newEntity().asks(1, slowLimit(a, stormLimit))
	var passed atomic.Int64
	runCallers(t, nodes, func(caller, call int) limiter.Request {
		return limiter.Request{ID: leaseID(a, caller, call), Asks: asks}
	}, func(_, _ int, res limiter.Result) {
		if res.Allowed {
			passed.Add(1)
		}
	})
	if got := passed.Load(); got != stormLimit {
		t.Errorf("%d of %d passed, the limit is %d", got, stormCallers*stormCalls, stormLimit)
	}
}

func leaseID(a limiter.Algorithm, caller, call int) string {
	if !a.Traits().Slots {
		return ""
	}
	return fmt.Sprintf("%d/%d", caller, call)
}

// wideAndNarrow: every caller has a separate narrow limit, and all share a wide one. A denial of a narrow limit must
// not spend from the wide one.
func wideAndNarrow(t *testing.T, h Harness) {
	nodes := pair(t, h)
	const narrow, wide = 11, stormCallers * stormCalls * 2
	who := newEntity()
	shared := limiter.Ask{Key: who.key(0, limiter.SlidingWindowCounter),
		Limit: slowLimit(limiter.SlidingWindowCounter, wide), Weight: 1}
	var passed [stormCallers]atomic.Int64
	runCallers(t, nodes, func(caller, _ int) limiter.Request {
		a := limiter.Algorithms()[caller%6]
		own := limiter.Ask{Key: who.key(1+caller, a), Limit: slowLimit(a, narrow), Weight: 1}
		return limiter.Request{Asks: []limiter.Ask{shared, own}}
	}, func(caller, _ int, res limiter.Result) {
		if res.Allowed {
			passed[caller].Add(1)
		}
	})
	for caller := range passed {
		if got := passed[caller].Load(); got != narrow {
			t.Errorf("caller %d: %d passed, its limit is %d", caller, got, narrow)
		}
	}
	d := do(t, nodes[0], limiter.OpPeek, "", shared).Limits[0]
	if used := wide - d.Remaining; used != stormCallers*narrow {
		t.Errorf("the wide limit was charged %d, %d passed", used, stormCallers*narrow)
	}
}

// overlapping: callers take from two of three shared limits, in either order.
func overlapping(t *testing.T, h Harness) {
	nodes := pair(t, h)
	limits := [3]int64{60, 80, 100}
	algorithms := [3]limiter.Algorithm{limiter.FixedWindow, limiter.TokenBucket, limiter.SlidingWindowLog}
	who := newEntity()
	ask := func(i int) limiter.Ask {
		i %= 3
		return limiter.Ask{Key: who.key(i, algorithms[i]), Limit: slowLimit(algorithms[i], limits[i]), Weight: 1}
	}
	var charged [3]atomic.Int64
	runCallers(t, nodes, func(caller, call int) limiter.Request {
		if caller%2 == 0 {
			return limiter.Request{Asks: []limiter.Ask{ask(call), ask(call + 1)}}
		}
		return limiter.Request{Asks: []limiter.Ask{ask(call + 1), ask(call)}}
	}, func(_, call int, res limiter.Result) {
		if res.Allowed {
			charged[call%3].Add(1)
			charged[(call+1)%3].Add(1)
		}
	})
	full := 0
	for i := range limits {
		d := do(t, nodes[1], limiter.OpPeek, "", ask(i)).Limits[0]
		if used := limits[i] - d.Remaining; used != charged[i].Load() {
			t.Errorf("limit %d was charged %d, %d passed", i, used, charged[i].Load())
		}
		if d.Remaining == 0 {
			full++
		}
	}
	if full < 2 {
		t.Errorf("%d limits are full, want at least 2: no pair of limits may have room left", full)
	}
}

// repeatsAtOnce: all callers send the same few named requests.
func repeatsAtOnce(t *testing.T, h Harness) {
	nodes := pair(t, h)
	const names = 20
	limit := slowLimit(limiter.FixedWindow, stormLimit)
	asks := newEntity().asks(1, limit)
	var fresh atomic.Int64
	runCallers(t, nodes, func(_, call int) limiter.Request {
		return limiter.Request{ID: fmt.Sprint("request ", call%names), Asks: asks}
	}, func(_, _ int, res limiter.Result) {
		if !res.Replayed {
			fresh.Add(1)
		}
	})
	if got := fresh.Load(); got != names {
		t.Errorf("%d of %d names were decided more than once", got-names, names)
	}
	if used := limit.Count - do(t, nodes[0], limiter.OpPeek, "", asks...).Limits[0].Remaining; used != names {
		t.Errorf("charged %d for %d names", used, names)
	}
}

// takesAndRefunds: every second admitted request is refunded.
func takesAndRefunds(t *testing.T, h Harness) {
	nodes := pair(t, h)
	limits := []limiter.Limit{slowLimit(limiter.SlidingWindowCounter, stormLimit),
		slowLimit(limiter.FixedWindow, 2*stormLimit)}
	asks := newEntity().asks(1, limits...)
	id := func(caller, call int) string { return fmt.Sprintf("%d/%d", caller, call/2) }
	var kept atomic.Int64
	runCallers(t, nodes, func(caller, call int) limiter.Request {
		if call%2 == 0 {
			return limiter.Request{ID: id(caller, call), Asks: asks}
		}
		if call%4 == 1 {
			return limiter.Request{Op: limiter.OpRefund, ID: id(caller, call), Asks: asks}
		}
		return limiter.Request{Op: limiter.OpPeek, Asks: asks}
	}, func(_, call int, res limiter.Result) {
		switch {
		case call%2 == 0 && res.Allowed:
			kept.Add(1)
		case call%4 == 1:
			kept.Add(-res.Limits[0].Refunded)
		}
	})
	for i, d := range do(t, nodes[1], limiter.OpPeek, "", asks...).Limits {
		if used := limits[i].Capacity() - d.Remaining; used != kept.Load() {
			t.Errorf("limit %d holds %d, kept %d", i, used, kept.Load())
		}
	}
}
