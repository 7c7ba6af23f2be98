package decide

import (
	"sluice/limiter"
	"sluice/rules"
)

// slow sets the delays of the first limits of an answer whose rules have a delay or a tarpit_ms. It can be repeated
// when the verdict has changed. Shadow limits, looks, charges and fail modes have none.
func (a *Answer) slow(limits []plannedLimit) {
	for i := range limits {
		la := &a.Limits[i]
		if la.Of == nil || la.Of.Delay == nil && la.Of.TarpitMS == nil {
			continue
		}
		switch d := &la.Decision; {
		case a.Op != limiter.OpTake || !la.Known || la.Shadow || la.Overloaded || ByFailMode(la.Degraded):
		case d.Allowed && la.Of.Delay != nil:
			d.Delay = 0
			if a.Allowed() && limits[i].spends(a.Op) > 0 {
				d.Delay = la.Of.Delay.Of(&la.Limit, d)
			}
		case !d.Allowed && la.Shed == "" && la.Of.OverLimit != rules.OverLimitDefer && la.Of.TarpitMS != nil:
			d.Delay = *la.Of.TarpitMS
		}
	}
}
