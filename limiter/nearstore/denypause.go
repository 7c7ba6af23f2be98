package nearstore

import "sluice/limiter"

// denyPause is a time in which a leased bucket denies takes of one unit without a call: the store has just denied one,
// and too few units drain to be worth a call each. Units that nobody takes during the pause stay in the bucket.
type denyPause struct {
	limit limiter.Limit
	d     limiter.Decision // of the store
	at    int64            // its time, ms
	got   int64            // when it arrived, local
	until int64            // local
	heard bool             // the store has answered since the pause ended
}

// denyInPause denies a take during a pause. h.mu is held.
func (h *hotKey) denyInPause(a *limiter.Ask, now int64, g *grant) bool {
	p := &h.denyPause
	if now >= p.until || now < p.got || a.Weight != 1 || a.Limit != p.limit {
		return false
	}
	d := p.d
	over := (now - p.got) / ms
	d.RetryAfter = max(d.RetryAfter-over, (p.until-now+ms-1)/ms)
	if d.Reset > 0 {
		d.Reset = max(1, d.Reset-over)
	}
	*g = grant{h: h, d: d, at: p.at + over, denied: true}
	return true
}

// pauseAgain begins another pause if the previous one has just ended and the store, called since, has some units but
// fewer than are worth a lease: a take after the pause finds them. If it has none, only the store knows how long to
// wait. h.mu is held.
func (h *hotKey) pauseAgain(a *limiter.Ask, now int64) bool {
	p := &h.denyPause
	if a.Limit != p.limit || !p.heard || h.remaining < 1 || now < p.until || now-p.until > pauseAgainFor {
		return false
	}
	p.until, p.heard = now+pauseFor, false
	return true
}

// denied begins a pause. The retry-after of d then lasts at least until its end, because this node
// does not ask before. It reports whether the store said a shorter one.
func (h *hotKey) denied(a *limiter.Ask, d *limiter.Decision, at, sent, got int64) bool {
	if a.Hot != limiter.HotLeased || a.Weight != 1 || d.Remaining != 0 || d.RetryAfter < 1 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	wait := pauseFor
	if a.Limit.Algorithm.Traits().Decay == limiter.DecayAtOnce {
		wait = min(wait, d.RetryAfter*ms) // then there is plenty at once
	}
	h.denyPause = denyPause{limit: a.Limit, d: *d, at: at, got: got, until: sent + wait}
	rest := (h.denyPause.until - got + ms - 1) / ms
	if rest <= d.RetryAfter {
		return false
	}
	d.RetryAfter = rest
	return true
}
