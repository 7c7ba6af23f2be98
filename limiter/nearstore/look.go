package nearstore

import (
	"context"

	"sluice/limiter"
)

// rest is what the shards of a bucket say beside the one that a take asks.
type rest struct {
	known     bool
	remaining int64 // of all of them
	most      int64 // of the one that has most left
	reset     int64 // the longest
}

// add takes in what one shard says.
func (r *rest) add(d *limiter.Decision) {
	r.remaining += d.Remaining
	r.most = max(r.most, d.Remaining)
	r.reset = longer(r.reset, d.Reset)
}

// looks appends a look at each shard of t's cold buckets beside the one that the
// take asks, so that the answer can say what remains in the whole bucket. A look
// is a plain take without weight, which a store decides in the same round trip as
// the take.
func (t *trip) looks(calls []limiter.Call) []limiter.Call {
	for i := range t.shards {
		sh := &t.shards[i]
		for k := 1; k < sh.n && !sh.hot; k++ {
			part := sh.part(sh.next + k)
			part.Weight, part.Look = 0, false
			calls = append(calls, limiter.Call{Request: limiter.Request{Asks: []limiter.Ask{part}}})
		}
	}
	return calls
}

// looked takes in the answers to looks and returns the calls behind them. A
// bucket of which one could not be looked at is known by its estimate.
func (t *trip) looked(calls []limiter.Call) []limiter.Call {
	for i := range t.shards {
		sh := &t.shards[i]
		if sh.hot {
			continue
		}
		sh.rest = rest{known: true}
		for k := range sh.n - 1 {
			c := &calls[k]
			if c.Err != nil || len(c.Result.Limits) != 1 {
				sh.rest.known = false
				break
			}
			sh.rest.add(&c.Result.Limits[0])
		}
		calls = calls[sh.n-1:]
	}
	return calls
}

// ask puts a trip's take to the store, and with it the looks that belong to it.
func (s *Store) ask(ctx context.Context, t *trip, res *limiter.Result) error {
	t.calls = t.looks(append(t.calls[:0], limiter.Call{}))
	if len(t.calls) == 1 {
		return s.inner.Do(ctx, t.out, res)
	}
	t.calls[0] = limiter.Call{Request: *t.out, Result: limiter.Result{Limits: res.Limits}}
	s.inner.DoAll(ctx, t.calls)
	t.looked(t.calls[1:])
	*res = t.calls[0].Result
	err := t.calls[0].Err
	clear(t.calls)
	return err
}

// lookAround adds to the answer of a settlement, which concerns one shard of each
// bucket, what the others say.
func (s *Store) lookAround(ctx context.Context, req *limiter.Request, res *limiter.Result) {
	var t trip
	for i := range req.Asks {
		if n := s.shards(&req.Asks[i]); n > 1 {
			t.shards = append(t.shards, sharding{at: i, whole: req.Asks[i], n: n, first: shardOf(req.ID, n)})
		}
	}
	calls := t.looks(nil)
	s.inner.DoAll(ctx, calls)
	t.looked(calls)
	for i := range t.shards {
		if sh := &t.shards[i]; sh.rest.known {
			d := &res.Limits[sh.at]
			d.Remaining, d.Reset = d.Remaining+sh.rest.remaining, longer(d.Reset, sh.rest.reset)
		}
	}
}
