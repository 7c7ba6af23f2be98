package decide

import (
	"context"
	"math"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// A grant is a reserve of several equal requests, which its caller then decides in its memory: the units that it may
// spend are charged before the answer. docs/hotkeys.md explains why that never exceeds a limit.

const (
	// MaxTimes is the largest number of requests that a reserve can ask for.
	MaxTimes = 1_000_000
	// MaxDenied is the largest number of denials that a settle can report.
	MaxDenied = 1_000_000
	// maxSpendWithin is the longest time for which a grant may be spent, ms. A change of the rules takes effect on
	// every node within that time too.
	maxSpendWithin = 1000
	// grantTarget is how long the grant of a draining bucket should last, ms.
	grantTarget = 100
	// minDraining is the smallest grant of a draining bucket, in requests: each loses a part of one while it drains, and
	// of a smaller one that is too much.
	minDraining = 16
)

// granted is what a grant's caller may do.
type granted struct {
	// times is the number of requests that were charged.
	times int64
	// within is for how many ms from the moment of sending the caller may spend them; shrinks says that what may be spent
	// falls evenly to 0 within that time.
	within  int64
	shrinks bool
}

// grant answers a reserve of q.Times requests, or of at least q.Least. Where the limits permit no grant, or a fail mode
// decides, it answers one request.
func (c *Checker) grant(ctx context.Context, q *Question, a *Answer) error {
	w := c.work()
	defer w.release()
	start, lost := c.opt.Now(), c.lost()
	set := c.opt.Sets.Load()
	if err := w.add(ctx, q, set, start); err != nil {
		return err
	}
	p := &w.plans[0]
	p.grant.times = 1
	if q.secret != nil && w.leasable(p) {
		c.takeGrant(ctx, w, p)
		if call := &w.calls[p.from]; call.Err == nil && !call.Result.Replayed {
			p.grant.within, p.grant.shrinks = w.spendWithin(p)
			for p.grant.within > 0 && !q.IsDirect &&
				!c.holds(ctx, w, p, set, start, start.Add(time.Duration(p.grant.within)*time.Millisecond)) {
				p.grant.within /= 2
			}
		}
	} else {
		c.decide(ctx, w)
	}
	if err := c.answer(ctx, w, p, a); err != nil {
		return err
	}
	switch a.SpendWithin = p.grant.within; {
	case !a.Allowed() && a.SpendWithin > 0:
		a.Reservation, a.ExpiresIn = deniedGrant(w, p, a, c.opt.Now().UnixMilli()+q.reserve), q.reserve
	case a.Allowed() && !a.Replayed:
		a.Granted, a.Shrinks = p.grant.times, p.grant.shrinks
	}
	took := c.opt.Now().Sub(start)
	w.decision = Decision{Question: q, Answer: a, Took: took, Outcome: p.outcome, By: p.by,
		ID: p.id, Origin: q.Origin, Starved: c.starved(took, lost)}
	if a.SpendWithin > 0 && !a.Replayed {
		w.decision.Lease, w.decision.Outcome, w.decision.By = true, "", ""
	}
	c.opt.Observe.ObserveDecision(&w.decision)
	return nil
}

// leasable reports whether the limits of a plan permit a grant: each can be leased and its rule permits that (no rule
// with a ban does), and none needs to see each request: none is shadow or a candidate, has a throttle or a pool, is
// charged by report, or spans regions. A bucket that drains must be the only limit, and drain fast enough: what drains
// of a grant is lost in every limit. The token must hold them all, or what is left of the grant could not be settled.
func (w *work) leasable(p *plan) bool {
	if p.enforced == 0 || p.end-p.first != p.enforced || p.pools != p.poolsEnd {
		return false
	}
	size := 0
	for i := p.first; i < p.end; i++ {
		l := &w.limits[i]
		size += len(w.calls[p.from].Request.Asks[l.ask].Key) + sealedAsk
		if l.rule != nil && l.rule.Rule.WeightField != nil {
			size += len(*l.rule.Rule.WeightField)
		} else {
			size += len(l.name)
		}
		if !l.limit.Leasable() || l.weight < 1 || l.look || l.blocked || l.spare > 0 || l.elastic {
			return false
		}
		if l.limit.Algorithm.Traits().Decay == limiter.DecayDrain &&
			(p.enforced > 1 || min(l.limit.LeaseFloor(0, grantTarget), l.limit.Capacity())/l.weight < minDraining) {
			return false
		}
		if r := l.rule; r != nil && (r.Hot != limiter.HotLeased || r.Exact || r.SpanOf != 0) {
			return false
		}
	}
	return size <= sealable
}

// takeGrant takes as many requests as the question asks for, else all that is left if that is enough. p.grant.times
// says how many. If the store fails, the fail modes decide on one request.
func (c *Checker) takeGrant(ctx context.Context, w *work, p *plan) {
	call, n := &w.calls[p.from], p.q.Times
	if timeout := c.timeout(w.calls); timeout > 0 {
		b := c.within(ctx, timeout)
		defer b.release()
		ctx = b
	}
	if w.drains(p) {
		n = max(n, c.drainingGrant(ctx, w, p))
	}
	w.multiply(p, n)
	call.Err = c.opt.Store.Do(ctx, &call.Request, &call.Result)
	if least := min(p.q.Least, n); call.Err == nil && !call.Result.Allowed && least < n {
		n = min(max(w.room(p, &call.Result), least), n-1)
		w.multiply(p, n)
		call.Err = c.opt.Store.Do(ctx, &call.Request, &call.Result)
	}
	if call.Err == nil && !call.Result.Allowed && n > 1 && w.neverFits(p, &call.Result) {
		n = max(1, w.room(p, &call.Result)) // so many fit, or the answer says when one does
		w.multiply(p, n)
		call.Err = c.opt.Store.Do(ctx, &call.Request, &call.Result)
	}
	if call.Err == nil && !call.Result.Allowed { // reported as the denial of one request
		// In a bucket that drains, it is worth waiting for more units.
		none := n > 1 && w.room(p, &call.Result) == 0 && !w.drains(p)
		w.multiply(p, 1)
		if none {
			c.whenOne(ctx, call)
		}
	}
	if call.Err != nil && n > 1 {
		w.multiply(p, n-1) // the units of the last one are reported with its answer
		c.observeDoubt(rules.ModeEnforce, limiter.OpTake, w.limits[p.first:p.end], call.Err)
		w.multiply(p, 1)
	}
}

// whenOne makes a denial of several requests say when one passes, where none does now.
func (c *Checker) whenOne(ctx context.Context, call *limiter.Call) {
	req := call.Request
	req.Op, req.ID, req.Keep = limiter.OpPeek, "", 0
	var res limiter.Result
	if err := c.opt.Store.Do(ctx, &req, &res); err != nil || res.Allowed {
		return
	}
	for i := range res.Limits {
		if d := &call.Result.Limits[i]; !d.Allowed && !res.Limits[i].Allowed {
			d.RetryAfter = res.Limits[i].RetryAfter
		}
	}
}

// multiply makes the plan one of n requests instead of p.grant.times.
func (w *work) multiply(p *plan, n int64) {
	asks := w.calls[p.from].Request.Asks
	for i := p.first; i < p.end; i++ {
		l := &w.limits[i]
		l.weight = l.weight / p.grant.times * n
		asks[l.ask].Weight = l.weight
	}
	p.grant.times = n
}

// room returns for how many requests all limits have room.
func (w *work) room(p *plan, res *limiter.Result) int64 {
	n := int64(math.MaxInt64)
	for i := p.first; i < p.end; i++ {
		l := &w.limits[i]
		n = min(n, res.Limits[l.ask].Remaining/(l.weight/p.grant.times))
	}
	return n
}

// neverFits reports whether some limit never has room for so many requests.
func (w *work) neverFits(p *plan, res *limiter.Result) bool {
	for i := p.first; i < p.end; i++ {
		if d := &res.Limits[w.limits[i].ask]; !d.Allowed && d.RetryAfter == limiter.Never {
			return true
		}
	}
	return false
}

// drains reports whether all limits of a plan are buckets that drain.
func (w *work) drains(p *plan) bool {
	for i := p.first; i < p.end; i++ {
		if w.limits[i].limit.Algorithm.Traits().Decay != limiter.DecayDrain {
			return false
		}
	}
	return true
}

// drainingGrant returns how many requests must be charged to draining buckets so that the grant lasts for grantTarget,
// at most as many as fit; 0 if that is unknown.
func (c *Checker) drainingGrant(ctx context.Context, w *work, p *plan) int64 {
	req := w.calls[p.from].Request
	req.Op, req.ID, req.Keep = limiter.OpPeek, "", 0
	var res limiter.Result
	if err := c.opt.Store.Do(ctx, &req, &res); err != nil {
		return 0
	}
	n := int64(0)
	for i := p.first; i < p.end; i++ {
		l := &w.limits[i]
		n = max(n, l.limit.LeaseFloor(res.Limits[l.ask].Used, grantTarget)/l.weight)
	}
	return min(n, w.room(p, &res), MaxTimes)
}

// spendWithin returns the time for which the allowed grant may be spent, and whether it shrinks. If the store has
// denied, it returns the time for which the caller may deny.
func (w *work) spendWithin(p *plan) (within int64, shrinks bool) {
	within = maxSpendWithin
	res := &w.calls[p.from].Result
	for i := p.first; i < p.end; i++ {
		l := &w.limits[i]
		d := &res.Limits[l.ask]
		switch {
		case res.Allowed:
			life, s := l.limit.LeaseLife(d)
			within, shrinks = min(within, life), shrinks || s
		case !d.Allowed && d.RetryAfter > 0:
			within = min(within, d.RetryAfter)
		}
	}
	return max(0, within), shrinks
}

// holds reports whether the same rules with the same limits apply from one instant of the wall clock until another, a
// second later at most. Life spans may be arbitrarily short. A window of a schedule lasts at least a minute, so the
// limit at the end shows whether one begins or ends, and overrides only end.
func (*Checker) holds(ctx context.Context, w *work, p *plan, set *match.Set, since, until time.Time) bool {
	var err error
	if w.matches, err = set.MatchSpan(ctx, &p.q.Descriptor, p.q.Weight, since, until, w.matches[:0]); err != nil ||
		len(w.matches) != p.enforced {
		return false
	}
	for i := range w.matches {
		m, l := &w.matches[i], &w.limits[p.first+i]
		ends := m.Rule.Rule.ActiveUntil
		if m.Rule != l.rule || m.Limit != l.limit || m.Override.Blocked || ends != nil && ends.Before(until) {
			return false
		}
	}
	return true
}
