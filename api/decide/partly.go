package decide

import (
	"context"

	"sluice/limiter"
	"sluice/rules"
)

// partly is what this region has decided of a take or peek that another region could not decide: the limits that are
// not at home there. The zero value is nothing.
type partly struct {
	call limiter.Call // of the limits that are decided here
	// said has their decisions at the places of their asks in the call that failed.
	said []limiter.Decision
	held []bool // by limit
	at   []int  // the places of their asks in call, by limit
	// overloaded: this region had no turn for them.
	overloaded bool
}

// decidePartly decides the limits of a failed call that are not at home elsewhere, so that the loss of another region
// does not open or close them too. If the others deny anyway, it only looks.
func (c *Checker) decidePartly(ctx context.Context, limits []plannedLimit, failed *limiter.Call) partly {
	p := partly{held: make([]bool, len(limits)), at: make([]int, len(limits))}
	if c.opt.Homes == nil || !c.away(failed.Request.Asks) {
		return p
	}
	req := limiter.Request{Op: failed.Request.Op, ID: failed.Request.ID, Keep: failed.Request.Keep,
		Impatient: failed.Request.Impatient}
	var places []int
	for i := range limits {
		l := &limits[i]
		blocked := l.blocked && l.weight > 0
		if c.opt.Homes.Away(l.key) || blocked || l.lifts {
			if blocked || l.failMode == rules.FailClosed {
				req.Op = limiter.OpPeek
			}
			continue
		}
		p.held[i], p.at[i] = true, len(req.Asks)
		for at := l.ask; at == l.ask || at == l.ask+1 && l.ban != nil; at++ {
			req.Asks, places = append(req.Asks, failed.Request.Asks[at]), append(places, at)
		}
	}
	if len(req.Asks) == 0 {
		return p
	}
	if req.ID == "" && req.Op == limiter.OpTake {
		req.ID = randomID() // it may have to be given back
	}
	p.call.Request = req
	p.call.Err = c.doBriefly(ctx, &p.call)
	if p.call.Err != nil {
		p.overloaded = isOverload(p.call.Err)
		clear(p.held)
		return p
	}
	p.said = make([]limiter.Decision, len(failed.Request.Asks))
	for n, at := range places {
		p.said[at] = p.call.Result.Limits[n]
	}
	return p
}

// doBriefly makes a call of this region's store within the time of a check here, whether or not that of the check is
// over.
func (c *Checker) doBriefly(ctx context.Context, call *limiter.Call) error {
	ctx = context.WithoutCancel(ctx)
	if c.opt.Timeout > 0 {
		b := c.within(ctx, c.opt.Timeout)
		defer b.release()
		b.bound.Turn = b.bound.Deadline // the caller has waited for the other region already
		ctx = b
	}
	return c.opt.Store.Do(ctx, &call.Request, &call.Result)
}

// denies reports whether a limit that was decided here denies.
func (p *partly) denies() bool { return p.said != nil && !p.call.Result.Allowed }

// answer writes the decision on a limit that was decided here.
func (p *partly) answer(l *plannedLimit, la *LimitAnswer) {
	l.decided(la, p.said)
	if l.spare > 0 {
		l.subtractSpare(la, p.call.Request.Op, p.call.Result.Allowed, nil)
	}
	l.addBan(la, p.said)
}

// finishPartly adds what was decided here to the verdict of the fail modes, and gives it back if they deny.
func (c *Checker) finishPartly(ctx context.Context, p *partly, a *Answer) {
	if p.said == nil {
		return
	}
	if a.At == 0 {
		a.At = p.call.Result.At
	}
	if p.denies() {
		a.Verdict = Denied
	}
	for i := range p.held {
		if p.held[i] && (a.Strictest < 0 || a.Limits[i].Decision.StricterThan(a.Limits[a.Strictest].Decision)) {
			a.Strictest = i
		}
	}
	if p.call.Request.Op == limiter.OpTake && p.call.Result.Allowed && !p.call.Result.Replayed && !a.Allowed() {
		p.call.Request.Op = limiter.OpRefund
		if err := c.doBriefly(ctx, &p.call); err != nil {
			c.observeFailure(err)
			return
		}
		for i := range p.held {
			if p.held[i] {
				d, now := &a.Limits[i].Decision, &p.call.Result.Limits[p.at[i]]
				d.Remaining, d.Used, d.Reset = min(now.Remaining, d.Limit), now.Used, now.Reset
			}
		}
	}
}
