package decide

// jitter lengthens the retry-after of each limit that denies by a uniformly random time, up
// to its rule's retry_jitter, so that clients that were denied together do not come back
// together. Where waiting does not help, nothing changes.
func (c *Checker) jitter(a *Answer, limits []plannedLimit) {
	changed, strictest := false, -1
	for i := range limits {
		la := &a.Limits[i]
		if r := limits[i].rule; r != nil && r.RetryJitter > 0 && !la.Decision.Allowed && la.Decision.RetryAfter > 0 {
			la.Decision.RetryAfter += c.opt.Rand(r.RetryJitter + 1)
			changed = true
		}
		if la.Known && (strictest < 0 || la.Decision.StricterThan(a.Limits[strictest].Decision)) {
			strictest = i
		}
	}
	if changed && a.Strictest >= 0 {
		a.Strictest = strictest
	}
}
