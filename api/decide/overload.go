package decide

import (
	"sluice/limiter"
	"sluice/rules"
)

// isOverload reports whether the store answers and only had no turn for a request in time, so that nothing was sent.
func isOverload(err error) bool { return err != nil && limiter.CauseOf(err) == limiter.CauseOverload }

// overload denies a take or peek because the store is overloaded. The store has not evaluated the limits, so none of
// them has figures or denies, and no fail mode decides, because the store is available. An override that blocks still
// denies, because that needs no store.
func (a *Answer) overload(limits []plannedLimit, failed *limiter.Call) {
	a.Verdict, a.Strictest, a.Impatient = Overloaded, -1, failed.Request.Impatient
	for i := range limits {
		la := limits[i].answer(failed)
		la.Degraded = ""
		if limits[i].blocked && limits[i].weight > 0 {
			la.Decision, la.Known = limiter.Decision{RetryAfter: limiter.Never}, true
			a.Verdict, a.Strictest = Denied, len(a.Limits)
		} else {
			la.Decision = limiter.Decision{Limit: la.Limit.Capacity(), Rate: la.Limit.Rate()}
			la.Overloaded = true
		}
		a.Limits = append(a.Limits, la)
	}
}

// impatient reports whether a request with these limits is denied rather than waits for a turn: one of them says deny.
// A rule that says nothing, and a direct limit, waits, because an answer is worth more to its caller than a denial.
func (w *work) impatient(limits []plannedLimit) bool {
	for i := range limits {
		r := limits[i].rule
		if r != nil && r.Rule.Overload != nil && *r.Rule.Overload == rules.OverloadDeny {
			return true
		}
	}
	return false
}

// hurry makes the takes and looks of a plan impatient if its enforced limits are; if there are none, its separate
// limits decide that. Charges and operations that give units back always wait, because nothing else replaces them.
func (w *work) hurry(p *plan, enforced int) {
	limits := w.limits[p.first : p.first+enforced]
	if enforced == 0 {
		limits = w.limits[p.first:p.end]
	}
	if !w.impatient(limits) {
		return
	}
	for i := p.from; i < p.to; i++ {
		if req := &w.calls[i].Request; req.Op == limiter.OpTake || req.Op == limiter.OpPeek {
			req.Impatient = true
		}
	}
}
