package limiter

// Settle changes the charge c of one bucket to actual units. Missing units are
// charged at now, whether or not they fit. Surplus units are refunded as Refund
// does, so that the bucket never holds less than if actual had been charged at
// first. It returns the decision (Allowed, Remaining, Reset and Refunded) and
// whether the state changed. It does not apply to concurrency.
func Settle(l Limit, s *State, now int64, c Charged, actual int64) (Decision, bool) {
	k := l.Algorithm.Traits().kernel
	d := Decision{Allowed: true, Limit: l.Capacity(), Rate: l.Rate()}
	changed := s.Exists && k.rebase(l, s, now)
	switch missing := actual - c.Weight; {
	case missing > 0:
		k.spend(l, s, now, missing, "")
		s.Exists, changed = true, true
	case missing < 0 && s.Exists && c.separable(l, s):
		units, did := k.refund(l, s, now, Charged{At: c.At, Weight: -missing, Base: actual})
		d.Refunded, changed = units, changed || did
	}
	d.figures(l, s, now)
	return d, changed
}

// separable reports whether the bucket s, whose limit is now l, can still separate the units of c from others. It holds
// none of them if it has started empty since, and cannot separate them after an edit that moved them to another window
// or changed how fast they drain.
func (c *Charged) separable(l Limit, s *State) bool {
	was, t := &c.Limit, l.Algorithm.Traits()
	switch {
	case c.Born != s.Born:
		return false
	case was.Algorithm == 0, t.Decay == DecayEach:
		return true
	case was.Window != l.Window, t.Decay == DecayDrain && was.Count != l.Count, t.Instant && was.Burst != l.Burst:
		return false
	}
	return was.Align == l.Align && was.Anchor == l.Anchor && was.Buckets == l.Buckets
}
