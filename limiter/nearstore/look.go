package nearstore

import (
	"context"

	"sluice/limiter"
)

// rest holds the state of the shards of a bucket other than the shard of a take.
type rest struct {
	known     bool
	remaining int64 // of all of them
	used      int64 // of all of them
	most      int64 // the units left in the shard with the most of them
	reset     int64 // the longest
}

// add takes in what one shard says.
func (r *rest) add(d *limiter.Decision) {
	r.remaining += d.Remaining
	r.used += d.Used
	r.most = max(r.most, d.Remaining)
	r.reset = longer(r.reset, d.Reset)
}

// looks appends a look at each other shard of r's cold buckets, so that the answer can state the units that remain in
// the whole bucket. A look is a plain take without weight, which a store decides in the same round trip as the take.
func (r *request) looks(calls []limiter.Call) []limiter.Call {
	for i := range r.shards {
		sh := &r.shards[i]
		for k := 1; k < sh.n && !sh.hot; k++ {
			part := sh.part(sh.next + k)
			part.Weight, part.Look = 0, false
			calls = append(calls, limiter.Call{Request: limiter.Request{Asks: []limiter.Ask{part}}})
		}
	}
	return calls
}

// looked takes in the answers to looks and returns the calls behind them. If the look at one shard failed, the bucket
// is estimated.
func (r *request) looked(calls []limiter.Call) []limiter.Call {
	for i := range r.shards {
		sh := &r.shards[i]
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

// doWithLooks sends a request that has shards to the store, together with its looks.
func (s *Store) doWithLooks(ctx context.Context, r *request, res *limiter.Result) error {
	r.calls = r.looks(append(r.calls[:0], limiter.Call{}))
	if len(r.calls) == 1 {
		return s.inner.Do(ctx, r.out, res)
	}
	r.calls[0] = limiter.Call{Request: *r.out, Result: limiter.Result{Limits: res.Limits}}
	s.inner.DoAll(ctx, r.calls)
	r.looked(r.calls[1:])
	*res = r.calls[0].Result
	err := r.calls[0].Err
	clear(r.calls)
	return err
}

// lookAround adds the figures of the other shards to the answer of a settlement, which concerns one shard of each
// bucket.
func (s *Store) lookAround(ctx context.Context, req *limiter.Request, res *limiter.Result) {
	var r request
	for i := range req.Asks {
		if n := s.shards(&req.Asks[i]); n > 1 {
			r.shards = append(r.shards, sharding{at: i, whole: req.Asks[i], n: n,
				before: s.formerShards(&req.Asks[i]), first: shardOf(req.ID, n)})
		}
	}
	calls := r.looks(nil)
	s.inner.DoAll(ctx, calls)
	r.looked(calls)
	for i := range r.shards {
		if sh := &r.shards[i]; sh.rest.known {
			d := &res.Limits[sh.at]
			d.Remaining, d.Used = d.Remaining+sh.rest.remaining, d.Used+sh.rest.used
			d.Reset = longer(d.Reset, sh.rest.reset)
		}
	}
}
