package decide

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"sluice/limiter"
	"sluice/rules"
)

// degrade applies the fail modes to the enforced limits of a take or peek, or to the limit of a report, because the
// store could not. Open allows, closed denies with status 503, and local lets this node's own store decide, by the
// node's share of the limit if there is a Ledger. If any limit is closed, the request is denied. Otherwise the local
// limits decide, all or nothing. An override that blocks always denies, because that needs no store. Fail modes do not
// apply to limits that the store has still decided (limiter.Result.Rest). If the store was only overloaded, no fail
// mode decides: see overload.
func (c *Checker) degrade(ctx context.Context, a *Answer, limits []plannedLimit, failed *limiter.Call) {
	if isOverload(failed.Err) {
		a.overload(limits, failed)
		return
	}
	a.Cause = limiter.CauseOf(failed.Err)
	closed, blocked, rest := false, -1, failed.Result.Rest
	for i := range limits {
		la := limits[i].answer(failed)
		if limits[i].blocked && limits[i].weight > 0 {
			la.Decision = limiter.Decision{RetryAfter: -1}
			la.Known = true
			blocked = i
			a.Limits = append(a.Limits, la)
			continue
		}
		if limits[i].inRest(failed) {
			limits[i].decided(&la, rest.Result.Limits)
			limits[i].subtractSpare(&la, rest.Request.Op, rest.Result.Allowed, nil)
			limits[i].addBan(&la, rest.Result.Limits)
			closed = closed || la.shut
			la.shutOff()
			a.Limits = append(a.Limits, la)
			continue
		}
		la.Degraded = limits[i].failMode
		switch la.Degraded {
		case rules.FailClosed:
			closed = true
		case rules.FailLocal:
			if c.opt.Local == nil {
				la.Degraded = rules.FailOpen
			}
		default:
			la.Degraded = rules.FailOpen
		}
		la.Decision = limiter.Decision{Allowed: la.Degraded != rules.FailClosed, Limit: la.Limit.Capacity(),
			Rate: la.Limit.Rate()}
		a.Limits = append(a.Limits, la)
	}
	c.decideLocally(ctx, a, limits, failed, closed || blocked >= 0 || rest != nil && !rest.Result.Allowed)
	if rest != nil {
		c.addRest(ctx, a, limits, failed)
	}
	if blocked >= 0 {
		a.Verdict, a.Strictest = Denied, blocked
	}
	if closed {
		a.Verdict, a.Strictest = Unavailable, -1
	}
	for i := range a.Limits {
		if limits[i].blocked && limits[i].weight > 0 || limits[i].inRest(failed) {
			continue
		}
		c.opt.Observe.ObserveDegraded(Degraded{FailMode: a.Limits[i].Degraded, Cause: a.Cause})
		a.Degraded = stronger(a.Degraded, a.Limits[i].Degraded)
	}
}

// inRest reports whether the store has decided a limit although it failed with others.
func (p *plannedLimit) inRest(failed *limiter.Call) bool {
	part := failed.Result.Part(p.ask)
	return failed.Result.Rest != nil && !p.lifts && (part == nil || !part.Elsewhere)
}

// addRest adds what the store decided nevertheless to the verdict of the fail modes, and gives it back if they deny.
func (c *Checker) addRest(ctx context.Context, a *Answer, limits []plannedLimit, failed *limiter.Call) {
	rest := failed.Result.Rest
	a.At = cmp.Or(a.At, rest.Result.At)
	if !rest.Result.Allowed {
		a.Verdict = Denied
	}
	for i := range limits {
		if limits[i].inRest(failed) &&
			(a.Strictest < 0 || a.Limits[i].Decision.StricterThan(a.Limits[a.Strictest].Decision)) {
			a.Strictest = i
		}
	}
	if rest.Request.Op != limiter.OpTake || !rest.Result.Allowed || rest.Result.Replayed || a.Allowed() {
		return
	}
	ctx, cancel := c.limited(context.WithoutCancel(ctx)) // the caller has waited for the other region already
	defer cancel()
	refund, res := rest.Request, limiter.Result{}
	refund.Op = limiter.OpRefund
	if err := c.opt.Store.Do(ctx, &refund, &res); err != nil {
		c.observeFailure(err)
		return
	}
	for i := range limits {
		if at := slices.IndexFunc(refund.Asks, func(a limiter.Ask) bool { return a.Key == limits[i].key }); at >= 0 {
			d, now := &a.Limits[i].Decision, &res.Limits[at]
			d.Remaining, d.Used, d.Reset = min(now.Remaining, d.Limit), now.Used, now.Reset
		}
	}
}

// decideLocally lets the local store decide the limits with fail mode local. It only looks if
// the request is denied anyway. If the local store fails, the limits are open. Pools are
// neither checked nor counted, so elastic limits act like hard ones.
func (c *Checker) decideLocally(ctx context.Context, a *Answer, limits []plannedLimit, failed *limiter.Call,
	closed bool) {
	req := limiter.Request{Op: failed.Request.Op, ID: failed.Request.ID}
	if closed {
		req.Op = limiter.OpPeek
	}
	for i := range a.Limits {
		if la := &a.Limits[i]; la.Degraded == rules.FailLocal {
			ask := limits[i].asked(failed)
			la.Limit, ask.Limit = c.opt.Ledger.share(la.Limit), c.opt.Ledger.share(ask.Limit)
			if part := failed.Result.Part(limits[i].ask); part != nil { // other regions also decide by their fail modes
				la.Limit, ask.Limit = la.Limit.Share(part.Holders), ask.Limit.Share(part.Holders)
			}
			ask.Former = c.opt.Ledger.shareOf(ask.Former)
			ask.Spans = false // nobody exports what this node counts
			req.Asks = append(req.Asks, ask)
		}
	}
	if len(req.Asks) == 0 {
		return
	}
	// The caller's deadline may have passed. The local store needs none.
	var res limiter.Result
	err := c.opt.Local.Do(context.WithoutCancel(ctx), &req, &res)
	strictest, n := -1, 0
	for i := range a.Limits {
		la := &a.Limits[i]
		if la.Degraded != rules.FailLocal {
			continue
		}
		if err != nil {
			la.Degraded = rules.FailOpen
			continue
		}
		la.Decision, la.Known = res.Limits[n], true
		limits[i].subtractSpare(la, req.Op, res.Allowed && !closed, nil)
		a.Soft = a.Soft || la.Soft
		if strictest < 0 || la.Decision.StricterThan(a.Limits[strictest].Decision) {
			strictest = i
		}
		n++
	}
	if err != nil {
		return
	}
	a.At, a.Replayed, a.Strictest = res.At, res.Replayed, strictest
	if !res.Allowed {
		a.Verdict = Denied
	}
	if !res.Replayed && (res.Allowed && req.Op == limiter.OpTake || req.Op == limiter.OpCharge) {
		c.oweAll(a, limits, failed, req.Asks, res.At)
	}
}

// releaseLocally releases the oldest lease of one limit with fail mode local in this node's own store, because the
// counter store could not: this node's store holds the takes of an outage and copies of earlier ones. Otherwise the
// node's share would be used up until their window ends. It reports whether it did so. If the lease is also in the
// counter store, it ends there after its window. An overloaded store is no outage: it holds the takes.
func (c *Checker) releaseLocally(ctx context.Context, l *plannedLimit, failed *limiter.Call) (limiter.Decision, bool) {
	if failed.Request.Op != limiter.OpRelease || l.failMode != rules.FailLocal || c.opt.Local == nil ||
		isOverload(failed.Err) {
		return limiter.Decision{}, false
	}
	req := limiter.Request{Op: limiter.OpRelease, ID: failed.Request.ID,
		Asks: []limiter.Ask{{Key: l.key, Limit: c.opt.Ledger.share(l.storeLimit()), Weight: l.weight}}}
	var res limiter.Result
	if c.opt.Local.Do(context.WithoutCancel(ctx), &req, &res) != nil {
		return limiter.Decision{}, false
	}
	return res.Limits[0], true
}

// oweAll records in the Ledger what the local limits admitted without the counter store. Units that the store may have
// taken are not charged again, unless they were sent to a home in another region, which gives them back.
func (c *Checker) oweAll(a *Answer, limits []plannedLimit, failed *limiter.Call, shares []limiter.Ask, now int64) {
	var se *limiter.StoreError
	unknown := !errors.As(failed.Err, &se) || se.Unknown
	undone := failed.Request.ID == "" || failed.Request.Unrepeated // at a home in another region
	n := 0
	for i := range a.Limits {
		if a.Limits[i].Degraded == rules.FailLocal {
			if !shares[n].Look {
				part := failed.Result.Part(limits[i].ask)
				givenBack := undone && part != nil && part.Elsewhere
				c.opt.Ledger.owe(limits[i].asked(failed), shares[n], now, unknown && !givenBack)
			}
			n++
		}
	}
}
