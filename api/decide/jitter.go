package decide

// jitter lets the retry-after of each limit that denies grow by as much as its
// rule says at most, uniformly, so that clients that were denied together do not
// come back together. It never shrinks, and what waiting cannot mend stays so.
func (c *Checker) jitter(a *Answer, limits []plannedLimit) {
	changed := false
	for i := range limits {
		la := &a.Limits[i]
		if r := limits[i].rule; r != nil && r.RetryJitter > 0 && !la.Decision.Allowed && la.Decision.RetryAfter > 0 {
			la.Decision.RetryAfter += c.opt.Rand(r.RetryJitter + 1)
			changed = true
		}
	}
	if changed && a.Strictest >= 0 {
		a.Strictest = a.strictest()
	}
}
