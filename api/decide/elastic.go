package decide

import (
	"context"

	"sluice/limiter"
	"sluice/rules"
)

// attempts bounds how often a request goes to the store: first with the limits as they are,
// then with the elastic limits that denied it raised. A third attempt is needed only if other
// requests take the room in the meantime.
const attempts = 4

// millionthsOfPercent converts the share of a pool to the unit of reports.
const millionthsOfPercent = 10_000

// plannedThrottle says what a soft or elastic limit admits beyond its count.
type plannedThrottle struct {
	// spare is the number of units admitted above the limit: always if it is soft, while its
	// pool has room if it is elastic.
	spare   int64
	elastic bool
	// pool is the index of the pool in work.pools plus 1, 0 for none.
	pool int32
	// raised is the first attempt at which the store enforces an elastic limit with its spare
	// units, 0 for none, and wait its retry-after without them.
	raised int32
	wait   int64
}

// retry identifies the call that an element of work.again repeats.
type retry struct {
	call                          int // in work.calls
	from, to, poolsFrom, poolsEnd int // its limits and pools in work
}

// retryElastic repeats the calls that only elastic limits denied, with these limits raised
// while their pools have room, within the deadline of ctx. A call whose repetition fails keeps
// its denial.
func (c *Checker) retryElastic(ctx context.Context, w *work) {
	for attempt := int32(1); attempt < attempts; attempt++ {
		w.again, w.retried = w.again[:0], w.retried[:0]
		for i := range w.plans {
			if w.plans[i].hasElastic {
				c.planRetry(w, &w.plans[i], attempt)
			}
		}
		switch len(w.again) {
		case 0:
			return
		case 1:
			w.again[0].Err = c.opt.Store.Do(ctx, &w.again[0].Request, &w.again[0].Result)
		default:
			c.opt.Store.DoAll(ctx, w.again)
		}
		for i := range w.again {
			c.acceptRetry(w, i, attempt)
		}
	}
}

// planRetry plans another attempt at the calls of a plan that may succeed.
func (c *Checker) planRetry(w *work, p *plan, attempt int32) {
	if p.q.Op != limiter.OpTake && p.q.Op != limiter.OpPeek {
		return
	}
	next := retry{call: p.from, from: p.first, to: p.first + p.enforced, poolsFrom: p.pools, poolsEnd: p.poolsEnd}
	if p.enforced > 0 {
		c.prepareRetry(w, next, attempt)
		next.call++
	}
	for i := next.to; i < p.end; i++ {
		next.from, next.to, next.poolsFrom, next.poolsEnd = i, i+1, 0, 0
		if n := int(w.limits[i].pool); n > 0 {
			next.poolsFrom, next.poolsEnd = n-1, n
		}
		c.prepareRetry(w, next, attempt)
		next.call++
	}
}

// prepareRetry adds another attempt at a call if it was denied only by elastic limits that were
// not raised yet and whose pools may have room.
func (c *Checker) prepareRetry(w *work, r retry, attempt int32) {
	call := &w.calls[r.call]
	if anyFull(w.pools[r.poolsFrom:r.poolsEnd]) && !call.Result.Replayed {
		call.Result.Allowed = false
		return
	}
	if call.Err != nil || call.Result.Allowed {
		return
	}
	limits, pools := w.limits[r.from:r.to], w.pools[r.poolsFrom:r.poolsEnd]
	said, over := call.Result.Limits, false
	for i := range limits {
		if p := &limits[i]; p.banned(said) || !said[p.ask].Allowed && !p.meter() &&
			(!p.elastic || p.raised > 0 || p.weight > p.limit.Capacity()+p.spare || !c.poolHasRoom(w, p)) {
			return
		}
		over = over || !said[limits[i].ask].Allowed
	}
	asks := call.Request.Asks
	poolsAt := len(asks) - len(pools)
	for i := range pools {
		// One that sheds says with the limits raised how long to wait.
		if at := poolsAt + i; !said[at].Allowed && (pools[i].full() || attempt > 1 || !over || asks[at].Weight == 0) {
			return
		}
	}
	for i := range limits {
		switch p := &limits[i]; {
		case said[p.ask].Allowed:
		case p.meter(): // it counts what it still can, and denies nothing
			asks[p.ask].Weight = max(0, said[p.ask].Remaining)
		default:
			p.raised, p.wait = attempt, said[p.ask].RetryAfter
			asks[p.ask].Limit, asks[p.ask].Spare = p.limit.Widen(p.spare), p.spare
			if at := int(p.pool) - 1; c.requireRoom(&w.pools[at], p) {
				ask := &asks[poolsAt+at-r.poolsFrom]
				ask.Limit, ask.Weight = w.pools[at].share, w.pools[at].weight
			}
		}
	}
	w.repeat(call, r)
}

// meter reports whether the limit belongs to a meter, which denies nothing: its bucket counts up to limiter.MaxExact.
func (p *plannedLimit) meter() bool { return p.rule != nil && p.rule.Rule.IsMeter() }

// repeat plans another attempt at a call.
func (w *work) repeat(call *limiter.Call, r retry) {
	w.retried = append(w.retried, r)
	if n := len(w.again); n < cap(w.again) {
		w.again = w.again[:n+1]
	} else {
		w.again = append(w.again, limiter.Call{})
	}
	again := &w.again[len(w.again)-1]
	again.Request, again.Err = call.Request, nil
	again.Request.Partly, again.Request.Again = 0, true // a denial stands that was decided
}

// poolHasRoom returns false if the fleet reports that a limit's pool has no room for its
// priority. Without a fresh report it returns true, and the counted traffic decides.
func (c *Checker) poolHasRoom(w *work, p *plannedLimit) bool {
	pool := w.pools[p.pool-1].pool
	used, _, fresh := c.opt.Loads.Load(pool.Pool.Name)
	return !fresh || used < pool.SharePercent(p.rule.Priority)*millionthsOfPercent
}

// requireRoom makes the next attempt depend on the room in a pool, for the lowest priority that
// exceeds its limit, unless a fresh report says that there is room. It reports whether the
// attempt depends on it.
func (c *Checker) requireRoom(p *plannedPool, l *plannedLimit) bool {
	if _, _, fresh := c.opt.Loads.Load(p.pool.Pool.Name); fresh {
		return p.needsRoom
	}
	share := p.pool.Share(l.rule.Priority)
	if !p.needsRoom || share.Count < p.share.Count {
		p.needsRoom, p.share = true, share
	}
	return true
}

// acceptRetry replaces the result of a call by the result of another attempt.
func (c *Checker) acceptRetry(w *work, i int, attempt int32) {
	again, r := &w.again[i], w.retried[i]
	call := &w.calls[r.call]
	if again.Err == nil {
		call.Result, again.Result = again.Result, call.Result
		return
	}
	limits := w.limits[r.from:r.to]
	if !isOverload(again.Err) { // then the denial stands, which was decided
		c.observeFailure(again.Err)
	}
	if call.Request.Op == limiter.OpTake {
		c.observeDoubt(limits[0].mode(), limiter.OpTake, limits, again.Err)
	}
	for k := range limits {
		if limits[k].raised == attempt { // no further attempt raises it
			limits[k].raised, limits[k].elastic = 0, false
		}
	}
}

// subtractSpare turns a decision on a limit with spare units into a decision on the limit
// itself, which the answer shows: a limit of 100 with 10 spare units and 103 used has 0
// remaining, not 7. said is whether the whole request was allowed, pool the decision of the
// limit's pool if the spare units were tried.
func (p *plannedLimit) subtractSpare(la *LimitAnswer, op limiter.Op, said bool, pool *limiter.Decision) {
	d := &la.Decision
	spare := d.Limit - la.Limit.Capacity() // 0 for an elastic limit that was not raised
	if spare <= 0 || p.spare == 0 {        // a replayed answer shows the limit of the first request
		return
	}
	left := d.Remaining
	if op == limiter.OpPeek || op == limiter.OpTake && (p.look || !said) {
		left -= p.weight // not spent yet
	}
	if said && d.Allowed && left < spare && (op == limiter.OpTake || op == limiter.OpPeek || op == limiter.OpCharge) {
		la.Elastic, la.Soft = p.elastic, !p.elastic
	}
	*d = d.Within(spare)
	if pool == nil || d.Allowed && pool.Allowed {
		return
	}
	// The request passes within its limit, or above it as soon as limit and pool have room.
	d.Allowed, d.RetryAfter = false, sooner(p.wait, later(d.RetryAfter, pool.RetryAfter))
}

// Throttle is the throttle that let the request exceed this limit: soft or elastic. Call it
// only if Soft or Elastic is set.
func (la *LimitAnswer) Throttle() string {
	if la.Elastic {
		return rules.ThrottleElastic
	}
	return rules.ThrottleSoft
}

// sooner and later compare waits, of which limiter.Never is the longest.
func sooner(a, b int64) int64 {
	if a == limiter.Never || b != limiter.Never && b < a {
		return b
	}
	return a
}

func later(a, b int64) int64 {
	if sooner(a, b) == a {
		return b
	}
	return a
}
