package nearstore

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
	"sluice/limiter/memstore"
)

// drawWide draws a limit wide enough for slices.
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
	narrow limiter.Ask // beside it, exact
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

// What several nodes admit from their slices, the exact reference admits too,
// take by take at the very time it was admitted.
func TestLease_NeverPassesTheLimit(t *testing.T) {
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
							// take that is denied. Another window would be read from when a slice was taken, not
							// from when its last unit was spent.
							next := drawWide(rt, a)
							f.leased.Limit.Count, f.leased.Limit.Burst = next.Count, next.Burst
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
					far += s.Stats().Slices
				}
			})
			if leasable(&limiter.Limit{Algorithm: a, Window: 1000, Buckets: 10, Count: 1}) {
				t.Logf("%d units spent from %d slices", near, far)
				if near < 10*far || far == 0 {
					t.Errorf("%d units from %d slices: nothing to speak of was leased", near, far)
				}
			} else if far > 0 {
				t.Errorf("%d slices of an algorithm that is never leased", far)
			}
		})
	}
}
