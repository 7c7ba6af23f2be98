package decide

import (
	"errors"
	"time"

	"sluice/limiter"
	"sluice/rules"
)

// If the limits permit the caller of a grant to decide, a denied grant is no decision about a request: the caller asks
// ahead, and for many requests at once. The requests that it then denies count when it reports them.

// ErrNothingCharged means that a settle has a weight or fields, and its reservation is of a denied grant.
var ErrNothingCharged = errors.New("the reservation is of a denied grant, for which nothing was charged")

// deniedGrant returns the token with which the caller of a denied grant reports its denials until an instant, in ms
// since the epoch.
func deniedGrant(w *work, p *plan, a *Answer, until int64) string {
	call := &w.calls[p.from]
	out := reservation{expires: until, denier: int64(a.Strictest) + 1}
	out.add(call, w.limits[p.first:p.end], true)
	for i := range p.enforced {
		out.used = append(out.used, max(0, a.Limits[i].Decision.Used))
	}
	return out.seal(p.q.secret)
}

// settleDenials reports what the caller of a denied grant has denied. The limit that denied the grant counts it.
func (c *Checker) settleDenials(r *reservation, start time.Time, s *Settlement, a *Answer) error {
	if s.Weight > 0 || len(s.Fields) > 0 {
		return ErrNothingCharged
	}
	*a = Answer{Op: limiter.OpSettle, Verdict: Denied, Strictest: int(r.denier) - 1, Limits: a.Limits[:0]}
	set := c.opt.Sets.Load()
	of := &r.calls[0]
	for i := range of.asks {
		ask := &of.asks[i]
		la := LimitAnswer{Key: ask.Key, Limit: ask.Limit, Weight: ask.Weight, Known: true}
		la.Decision = limiter.Decision{Allowed: i != a.Strictest, Limit: ask.Limit.Capacity(), Rate: ask.Limit.Rate()}
		la.Decision.SetRoom(la.Decision.Limit - r.used[i])
		la.name(set, ask)
		la.Notify = nil // the use belongs to the grant
		a.Limits = append(a.Limits, la)
		if s.Decisions != nil && s.Decisions.Denied > 0 {
			n := s.Decisions.Denied
			c.observeUnits(rules.ModeEnforce, OutcomeDenied, ByCaller, n*min(ask.Weight, limiter.MaxExact/n))
		}
	}
	c.opt.Observe.ObserveDecision(&Decision{Answer: a, Took: c.opt.Now().Sub(start), ID: of.id, Origin: s.Origin,
		Settled: s})
	return nil
}
