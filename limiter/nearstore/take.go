package nearstore

import (
	"context"
	"errors"

	"sluice/limiter"
)

// request is one take that the Store decides: the caller's request, the request that is sent to the inner store
// instead, and the units of leases that it uses. Requests are pooled; each belongs to one goroutine.
type request struct {
	req *limiter.Request
	// out is what goes to the store: req itself, or sub.
	out *limiter.Request
	sub limiter.Request
	// result is where the store's answer to out goes: the caller's result, or res while
	// some limits are decided here.
	result *limiter.Result
	res    limiter.Result
	// asks are the limits to enforce where they differ from req's: raised ones, and
	// shards in place of sharded buckets. Empty if they do not differ.
	asks []limiter.Ask
	hots [maxAsks]*hotKey
	// isHot: some of hots is not nil.
	isHot bool
	// grants are what leases gave, by position; leased says how many.
	grants [maxAsks]grant
	leased int
	index  []int // of sub's asks, while leased > 0
	shards []sharding
	calls  []limiter.Call // the take and looks at other shards
	ready  bool           // prepared: the next round only tries other shards
	call   int            // in a batch

	// sent is a local time shortly before the store was called, and gens what the
	// deny cache compares afterwards.
	sent int64
	gens [maxAsks]uint64
}

// tick is the local time, ns since the start.
func (s *Store) tick() int64 { return int64(s.opt.Now().Sub(s.start)) }

// Do decides one request within the deadline of ctx.
func (s *Store) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	switch {
	case s.closed.Load():
		return s.inner.Do(ctx, req, res)
	case req.Op != limiter.OpTake:
		return s.doNonTake(ctx, req, res)
	}
	r, _ := s.requests.Get().(*request)
	r.req = req
	err := s.take(ctx, r, res)
	s.free(r)
	return err
}

// take decides a take, here or at the store. A denied take may try another shard.
func (s *Store) take(ctx context.Context, r *request, res *limiter.Result) error {
	for !s.answer(ctx, r, res) {
		var err error
		if len(r.shards) > 0 {
			err = s.doWithLooks(ctx, r, r.result)
		} else {
			err = s.inner.Do(ctx, r.out, r.result)
		}
		if s.learn(r, res, err); err != nil {
			return err
		}
		if len(r.shards) == 0 || !s.nextShard(r, res) {
			break
		}
	}
	return nil
}

// batch is the requests of a DoAll that go to the store together, and their calls.
// Batches are pooled.
type batch struct {
	requests []*request
	calls    []limiter.Call
}

// maxBatch keeps the memory of the largest batches out of the pool.
const maxBatch = 1024

// DoAll decides the calls independently, in order.
func (s *Store) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		if s.closed.Load() || calls[i].Request.Op != limiter.OpTake {
			s.doInOrder(ctx, calls)
			return
		}
	}
	b, _ := s.batches.Get().(*batch)
	for i := range calls {
		r, _ := s.requests.Get().(*request)
		r.req, r.call = &calls[i].Request, i
		calls[i].Err = nil
		if s.answer(ctx, r, &calls[i].Result) {
			s.free(r)
			continue
		}
		b.requests = append(b.requests, r)
		b.calls = append(b.calls, limiter.Call{Request: *r.out,
			Result: limiter.Result{Limits: r.result.Limits}})
	}
	for _, r := range b.requests {
		b.calls = r.looks(b.calls)
	}
	if len(b.calls) > 0 {
		s.inner.DoAll(ctx, b.calls)
	}
	looks := b.calls[len(b.requests):]
	for n, r := range b.requests {
		c := &calls[r.call]
		*r.result = b.calls[n].Result
		c.Err = b.calls[n].Err
		looks = r.looked(looks)
		s.learn(r, &c.Result, c.Err)
		if c.Err == nil && len(r.shards) > 0 && s.nextShard(r, &c.Result) {
			c.Err = s.take(ctx, r, &c.Result)
		}
		s.free(r)
	}
	if cap(b.calls) <= maxBatch {
		clear(b.requests)
		clear(b.calls)
		b.requests, b.calls = b.requests[:0], b.calls[:0]
		s.batches.Put(b)
	}
}

// free clears a request and returns it to the pool.
func (s *Store) free(r *request) {
	clear(r.asks)
	clear(r.sub.Asks)
	clear(r.shards)
	r.req, r.out, r.result = nil, nil, nil
	r.asks, r.index, r.shards = r.asks[:0], r.index[:0], r.shards[:0]
	r.sub = limiter.Request{Asks: r.sub.Asks[:0]}
	if r.leased > 0 {
		clear(r.grants[:])
	}
	clear(r.hots[:])
	r.leased, r.ready, r.isHot = 0, false, false
	s.requests.Put(r)
}

// answer answers a take without the store if it can. Otherwise r.out is the request that the store must decide.
func (s *Store) answer(ctx context.Context, r *request, res *limiter.Result) bool {
	now := s.tick()
	if !r.ready {
		r.ready = true
		if s.sketch != nil {
			s.prepare(r, now)
		}
	}
	for {
		if r.out = r.req; len(r.asks) > 0 {
			room := r.sub.Asks[:0]
			r.sub = *r.req
			r.sub.Asks = room
			r.sub.Asks = append(r.sub.Asks, r.asks...)
			r.out = &r.sub
		}
		// If the caller has left, the store behind returns the error.
		here := s.deny != nil && s.deny.cache.EstimatedSize() > 0 && ctx.Err() == nil && s.deny.answer(r.out, res, now) ||
			r.isHot && ctx.Err() == nil && s.fromLeases(ctx, r, res)
		if !here {
			break
		}
		if res.Allowed || len(r.shards) == 0 || !s.nextShard(r, res) {
			return true
		}
	}
	if s.deny != nil && len(r.out.Asks) <= maxAsks {
		for i := range r.out.Asks {
			r.gens[i] = s.deny.stripe(r.out.Asks[i].Key).gen.Load()
		}
	}
	r.sent, r.result = now, res
	if r.leased > 0 {
		r.result = &r.res
	}
	return false
}

// prepare counts the take and replaces its limits by the limits to enforce: raised limits of hot buckets, and shards.
func (s *Store) prepare(r *request, now int64) {
	same := true
	for i := range r.req.Asks {
		a := &r.req.Asks[i]
		var h *hotKey
		if a.Weight > 0 {
			var turned bool
			if h, turned = s.sketch.touch(a.Key, now); h != nil {
				r.isHot = true
				s.serveHot(h, a, turned)
			}
		}
		if i < maxAsks {
			r.hots[i] = h
		}
		same = same && a.Hot != limiter.HotSharded && (h == nil || a.Hot == limiter.HotExact || a.HotRaise <= 0)
	}
	if same {
		return
	}
	r.asks = append(r.asks[:0], r.req.Asks...)
	for i := range r.asks {
		a := &r.asks[i]
		hot := i < maxAsks && r.hots[i] != nil
		if hot && a.Hot != limiter.HotExact {
			a.Limit = a.Limit.Raise(a.HotRaise)
		}
		if sh, ok := s.shard(a, i, r.req.ID, hot); ok {
			r.shards = append(r.shards, sh)
		}
	}
}

// fromLeases sets units aside for the limits that this node holds leases of and
// answers the take if there are no others.
func (s *Store) fromLeases(ctx context.Context, r *request, res *limiter.Result) bool {
	m := r.out
	if m.ID != "" || len(m.Asks) > maxAsks {
		return false
	}
	for i := range m.Asks {
		h, a := r.hots[i], &m.Asks[i]
		if h == nil || a.Hot != limiter.HotLeased || a.Look || a.Weight < 1 || !a.Limit.Leasable() {
			continue
		}
		if m.Check() != nil {
			return false
		}
		if s.takeLeased(ctx, h, a, len(m.Asks) == 1, &r.grants[i]) {
			r.leased++
		}
	}
	switch r.leased {
	case 0:
		return false
	case len(m.Asks):
		res.Allowed, res.Replayed, res.Limits = true, false, res.Limits[:0]
		for i := range m.Asks {
			g := &r.grants[i]
			res.Allowed, res.At = res.Allowed && !g.denied, max(g.at, 0)
			res.Limits = append(res.Limits, g.d)
		}
		return true
	}
	s.withoutLeased(r, m)
	return s.deny != nil && s.deny.answer(r.out, &r.res, s.tick()) && s.join(r, res, nil)
}

// withoutLeased sets r.out to the limits that no lease decided.
func (*Store) withoutLeased(r *request, m *limiter.Request) {
	if len(r.asks) == 0 {
		r.asks = append(r.asks, m.Asks...)
	}
	asks := r.sub.Asks[:0]
	r.sub = *m
	r.sub.Asks = asks
	r.index = r.index[:0]
	for i := range r.asks {
		if r.grants[i].h == nil {
			r.sub.Asks = append(r.sub.Asks, r.asks[i])
			r.index = append(r.index, i)
		}
	}
	r.out = &r.sub
}

// learn records the result of the store behind, or its failure.
func (s *Store) learn(r *request, res *limiter.Result, err error) {
	answer := r.result
	outlasts := err == nil && r.leased == 0 && s.learnHot(r, answer)
	if err == nil && s.deny != nil && !answer.Replayed {
		switch {
		case outlasts: // the pause denies for as long
		case !answer.Allowed:
			s.deny.learn(r.out, answer, r.sent, s.tick(), &r.gens)
		case s.deny.cache.EstimatedSize() > 0:
			s.deny.admitted(r.out.Asks)
		}
	}
	if r.leased > 0 {
		s.join(r, res, err)
	}
}

// learnHot records the figures of hot buckets in the answer of the store. It reports whether a denial begins a pause
// that outlasts the wait in that answer.
func (s *Store) learnHot(r *request, answer *limiter.Result) (outlasts bool) {
	if !r.isHot || len(r.out.Asks) > maxAsks {
		return false
	}
	for i := range r.out.Asks {
		if h := r.hots[i]; h != nil && i < len(answer.Limits) {
			h.recordRemaining(&r.out.Asks[i], &answer.Limits[i])
			if !answer.Allowed && len(r.out.Asks) == 1 {
				outlasts = h.denied(&r.out.Asks[i], &answer.Limits[i], answer.At, r.sent, s.tick())
			}
		}
	}
	return outlasts
}

// join combines the decisions of leases and of the store. If the store denied or failed, the units
// return to the leases. It returns true.
func (s *Store) join(r *request, res *limiter.Result, err error) bool {
	keep := err == nil && r.res.Allowed
	var se *limiter.StoreError
	if errors.As(err, &se) && se.Unknown {
		keep = true // perhaps applied: charged rather than not
	}
	for i := range r.asks {
		if g := &r.grants[i]; g.h != nil && !keep {
			g.undo()
		}
	}
	if err == nil {
		res.Allowed, res.Replayed, res.At, res.Limits = r.res.Allowed, false, r.res.At, res.Limits[:0]
		n := 0
		for i := range r.asks {
			if r.grants[i].h != nil {
				res.Limits = append(res.Limits, r.grants[i].d)
				continue
			}
			res.Limits = append(res.Limits, r.res.Limits[n])
			n++
		}
	}
	clear(r.grants[:])
	r.leased = 0
	return true
}
