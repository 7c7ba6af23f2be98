package decide

import (
	"sluice/limiter"
	"sluice/rules"
)

// retries changes the retry-after of each limit that denies as its rule says: a denial with retry never has none that
// helps, and with jitter it is longer by a uniformly random time of up to retry_jitter_ms, so that clients that were
// denied together do not come back together. A denial by a pool alone has only the jitter. A look has no jitter.
func (c *Checker) retries(a *Answer, limits []plannedLimit) {
	changed, strictest := false, -1
	for i := range limits {
		la := &a.Limits[i]
		if r := limits[i].rule; r != nil && !la.Decision.Allowed && la.Decision.RetryAfter > 0 {
			switch {
			case la.Known && la.Shed == "" && r.Rule.Denial != nil && r.Rule.Denial.Retry == rules.RetryNever:
				la.Decision.RetryAfter, changed = limiter.Never, true
			case r.RetryJitter > 0 && a.Op != limiter.OpPeek:
				la.Decision.RetryAfter += c.opt.Rand(r.RetryJitter + 1)
				changed = true
			}
		}
		if la.Known && (strictest < 0 || la.Decision.StricterThan(a.Limits[strictest].Decision)) {
			strictest = i
		}
	}
	if changed && a.Strictest >= 0 {
		a.Strictest = strictest
	}
}
