package decide

import (
	"sluice/limiter"
	"sluice/rules"
)

// decided takes over the store's decisions on the enforced limits.
func (a *Answer) decided(w *work, j *job, call *limiter.Call) {
	res, limits := &call.Result, w.limits[j.first:j.first+j.enforced]
	a.At, a.Replayed = res.At, res.Replayed
	for i := range limits {
		la := limits[i].answer()
		la.Decision, la.Known = res.Limits[i], true
		if p := &limits[i]; p.spare > 0 {
			var pool *limiter.Decision
			if p.raised > 0 {
				pool = &res.Limits[len(limits)+int(p.pool)-1-j.pools]
			}
			p.present(&la, a.Op, res.Allowed, pool)
			a.Soft, a.Elastic = a.Soft || la.Soft, a.Elastic || la.Elastic
		}
		a.Limits = append(a.Limits, la)
	}
	if !res.Allowed && (a.Op != limiter.OpRefund && a.Op != limiter.OpReset) {
		a.Verdict = Denied
	}
	a.Strictest = a.strictest()
}

// settleShadow lists the shadow limits and the candidates. They never change the
// answer's own figures, and one that the store could not decide counts as allowed.
func (c *Checker) settleShadow(a *Answer, limits []planned, calls []limiter.Call) {
	for i := range limits {
		la := limits[i].answer()
		la.Shadow = true
		switch call := &calls[i]; {
		case call.Err != nil:
			la.Decision = limiter.Decision{Allowed: true, Limit: la.Limit.Capacity(), Rate: la.Limit.Rate()}
			la.Degraded = rules.FailOpen
			c.undecided(call.Err)
		default:
			la.Decision, la.Known = call.Result.Limits[0], true
			if p := &limits[i]; p.spare > 0 {
				var pool *limiter.Decision
				if p.raised > 0 {
					pool = &call.Result.Limits[1]
				}
				p.present(&la, a.Op, call.Result.Allowed, pool)
			}
		}
		a.Limits = append(a.Limits, la)
	}
}
