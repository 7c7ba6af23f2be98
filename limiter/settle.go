package limiter

// Settle makes the charge c of one bucket weigh actual units: what is missing is
// charged at now whether it fits or not, what is too much is given back with the
// care of a refund, so that the bucket never holds less than if actual had been
// charged in the first place. It returns the decision (Allowed, Remaining, Reset
// and Refunded) and whether the state changed. It does not apply to concurrency.
func Settle(l Limit, s *State, now int64, c Charged, actual int64) (Decision, bool) {
	k := l.Algorithm.Traits().kernel
	d := Decision{Allowed: true, Limit: l.Capacity(), Rate: l.Rate()}
	changed := s.Exists && k.rebase(l, s, now)
	switch missing := actual - c.Weight; {
	case missing > 0:
		k.spend(l, s, now, missing, "")
		s.Exists, changed = true, true
	case missing < 0 && s.Exists && c.tells(l):
		units, did := k.refund(l, s, now, Charged{At: c.At, Weight: -missing, Base: actual})
		d.Refunded, changed = units, changed || did
	}
	d.Remaining, d.Reset = k.figures(l, s, now)
	return d, changed
}

// tells reports whether a bucket that is limited by l now can still tell the
// units of c from those of others: not after an edit that moved them elsewhere
// or changed how fast they drain.
func (c *Charged) tells(l Limit) bool {
	was, t := &c.Limit, l.Algorithm.Traits()
	switch {
	case was.Algorithm == 0, t.Decay == DecayEach:
		return true
	case was.Window != l.Window, t.Decay == DecayDrain && was.Count != l.Count, t.Instant && was.Burst != l.Burst:
		return false
	}
	return was.Align == l.Align && was.Anchor == l.Anchor && was.Buckets == l.Buckets
}
