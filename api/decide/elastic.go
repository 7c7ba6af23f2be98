package decide

import (
	"context"

	"sluice/limiter"
	"sluice/rules"
)

// attempts bounds how often a request is put to the store: once with the limits
// as they are, then with those elastic limits raised that stood in its way.
// More than two are needed only where others take the room meanwhile.
const attempts = 4

// millionthsOfPercent converts a share of a pool to what reports come in.
const millionthsOfPercent = 10_000

// retry names the call that an entry of work.again repeats.
type retry struct {
	call                          int // in work.calls
	from, to, poolsFrom, poolsEnd int // its limits and pools in work
}

// retryElastic repeats the calls that only elastic limits denied, with those limits
// raised as far as their pools have room, all within the deadline of ctx. A call
// whose repetition fails keeps its answer: it was over its limits.
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

// planRetry finds the calls of a plan that are worth another attempt.
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

// prepareRetry adds another attempt at a call, if nothing stands in its way but
// elastic limits that have not been raised yet and have a chance, and pools that
// cannot count any further.
func (c *Checker) prepareRetry(w *work, r retry, attempt int32) {
	call := &w.calls[r.call]
	if call.Err != nil || call.Result.Allowed {
		return
	}
	limits, pools := w.limits[r.from:r.to], w.pools[r.poolsFrom:r.poolsEnd]
	said := call.Result.Limits
	for i := range limits {
		if p := &limits[i]; !said[i].Allowed &&
			(!p.elastic || p.raised > 0 || p.weight > p.limit.Capacity()+p.spare || !c.roomy(w, p)) {
			return
		}
	}
	asks := call.Request.Asks
	for i := range pools {
		if at := len(limits) + i; !said[at].Allowed {
			if pools[i].gated || asks[at].Weight == 0 {
				return
			}
			asks[at].Weight = 0
		}
	}
	for i := range limits {
		if p := &limits[i]; !said[i].Allowed {
			p.raised, p.wait = attempt, said[i].RetryAfter
			asks[i].Limit = p.limit.Widen(p.spare)
			if at := int(p.pool) - 1; c.gate(&w.pools[at], p) {
				ask := &asks[len(limits)+at-r.poolsFrom]
				ask.Limit, ask.Weight = w.pools[at].share, w.pools[at].weight
			}
		}
	}
	w.retried = append(w.retried, r)
	if n := len(w.again); n < cap(w.again) {
		w.again = w.again[:n+1]
	} else {
		w.again = append(w.again, limiter.Call{})
	}
	again := &w.again[len(w.again)-1]
	again.Request, again.Err = call.Request, nil
}

// roomy is false if the fleet reports that a limit's pool has no room for its
// priority; where there is no fresh report the counted traffic decides.
func (c *Checker) roomy(w *work, p *plannedLimit) bool {
	pool := w.pools[p.pool-1].pool
	used, _, fresh := c.opt.Loads.Load(pool.Pool.Name)
	return !fresh || used < pool.SharePercent(p.rule.Priority)*millionthsOfPercent
}

// gate makes a pool's room a condition of the next attempt, for the lowest
// priority that goes above its limit, unless a fresh report has said already
// that there is room.
func (c *Checker) gate(p *plannedPool, l *plannedLimit) bool {
	if _, _, fresh := c.opt.Loads.Load(p.pool.Pool.Name); fresh {
		return p.gated
	}
	share := p.pool.Share(l.rule.Priority)
	if !p.gated || share.Count < p.share.Count {
		p.gated, p.share = true, share
	}
	return true
}

// acceptRetry takes over the answer of another attempt.
func (c *Checker) acceptRetry(w *work, i int, attempt int32) {
	again, r := &w.again[i], w.retried[i]
	call := &w.calls[r.call]
	if again.Err == nil {
		call.Result, again.Result = again.Result, call.Result
		return
	}
	limits := w.limits[r.from:r.to]
	c.undecided(again.Err)
	if call.Request.Op == limiter.OpTake {
		c.observeDoubt(limits[0].mode(), limiter.OpTake, limits, again.Err)
	}
	for k := range limits {
		if limits[k].raised == attempt { // and not again
			limits[k].raised, limits[k].elastic = 0, false
		}
	}
}

// present turns a decision on a limit with spare units into one on the limit
// itself, whose figures the answer shows: 100 a minute with 10 spare and 103
// used has 0 remaining, not 7. said is the whole request's answer, pool the
// decision of the limit's pool, if the spare units were tried.
func (p *plannedLimit) present(la *LimitAnswer, op limiter.Op, said bool, pool *limiter.Decision) {
	d := &la.Decision
	spare := d.Limit - la.Limit.Capacity() // 0 for an elastic limit that was not raised
	if spare <= 0 || p.spare == 0 {        // a repeat is answered under the limit of its first time
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
	// It passes within its limit, or above it once both have room.
	d.Allowed, d.RetryAfter = false, sooner(p.wait, later(d.RetryAfter, pool.RetryAfter))
}

// Throttle names what let the request pass above the limit, soft or elastic; it is
// about a limit that did.
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
