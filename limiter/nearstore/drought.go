package nearstore

import "sluice/limiter"

// drought is a time in which a take of one unit is denied without asking: the
// store has just denied one, and it comes back in small change that is not worth
// an operation each. What is not taken meanwhile stays in the bucket.
type drought struct {
	limit limiter.Limit
	d     limiter.Decision // of the store
	at    int64            // its time, ms
	got   int64            // when it was heard, local
	until int64            // local
	asked bool             // the store has answered since it ended
}

// dry denies a take in a drought. h.mu is held.
func (h *hotKey) dry(a *limiter.Ask, now int64, g *grant) bool {
	dr := &h.drought
	if now >= dr.until || now < dr.got || a.Weight != 1 || a.Limit != dr.limit {
		return false
	}
	d := dr.d
	over := (now - dr.got) / ms
	d.RetryAfter = max(d.RetryAfter-over, (dr.until-now+ms-1)/ms)
	if d.Reset > 0 {
		d.Reset = max(1, d.Reset-over)
	}
	*g = grant{h: h, d: d, at: dr.at + over, dry: true}
	return true
}

// smallChange begins another drought when the one before has hardly ended and
// the store, asked since, has less than is worth a slice. h.mu is held.
func (h *hotKey) smallChange(a *limiter.Ask, now int64) bool {
	dr := &h.drought
	if a.Limit != dr.limit || !dr.asked || now < dr.until || now-dr.until > droughtEnds {
		return false
	}
	dr.until, dr.asked = now+droughtFor, false
	return true
}

// denied begins a drought.
func (h *hotKey) denied(a *limiter.Ask, d *limiter.Decision, at, sent, got int64) {
	if a.Hot != limiter.HotLeased || a.Weight != 1 || d.Remaining != 0 || d.RetryAfter < 1 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	wait := droughtFor
	if a.Limit.Algorithm == limiter.FixedWindow {
		wait = min(wait, d.RetryAfter*ms) // then there is plenty at once
	}
	h.drought = drought{limit: a.Limit, d: *d, at: at, got: got, until: sent + wait}
}
