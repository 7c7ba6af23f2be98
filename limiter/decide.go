package limiter

// Charged records the units that a take or charge booked in one bucket, for a later refund.
type Charged struct {
	// At is the time the charge was booked at, ms.
	At int64
	// Weight is in units.
	Weight int64
	// Base is a number of units that were certainly booked before it, 0 if unknown.
	// A bucket that drains, drains those first.
	Base int64
	// Limit is the limit at that time. The zero Limit stands for an unknown one,
	// which counts as unchanged.
	Limit Limit
	// Born is the number of the bucket (State.Born).
	Born uint32
}

// kernel is the arithmetic of one kind of state. Times are ms; now is the
// request's own time, which may lie before the state's last change.
type kernel interface {
	// rebase moves the clock of a state back to now if it is further ahead than the
	// algorithm remembers, and reports whether it changed the state.
	rebase(l Limit, s *State, now int64) bool
	// fits reports whether weight w is admitted, and if not, after what wait the
	// same request is (or Never). It does not change s.
	fits(l Limit, s *State, now, w int64, id string) (ok bool, retryAfter int64)
	// spend books w unconditionally and returns the time it was booked at.
	spend(l Limit, s *State, now, w int64, id string) int64
	// refund gives back the part of c that still counts, in whole units.
	refund(l Limit, s *State, now int64, c Charged) (units int64, changed bool)
	// figures returns what Decision.SetRoom takes, and reset.
	figures(l Limit, s *State, now int64) (room, reset int64)
	// refundNow gives back up to w > 0 units that still count, those spent last first.
	refundNow(l Limit, s *State, now, w int64) (units int64, changed bool)
	// expires returns the instant from which s equals the zero state.
	expires(l Limit, s *State) int64
}

// Decide runs a take, peek or charge of all asks together at time now (ms). states[i] is the bucket of asks[i] and is
// changed in place; changed[i] reports whether it must be stored; out[i] receives the decision and charged[i] receives
// the booked units (weight 0 if there are none, as for Ask.Look in a take). All slices have the length of asks. It
// returns whether every limit allowed.
//
// Even if nothing is spent, a state must be stored after its clock was rebased to now, or after a ban counted a denial.
func Decide(
	op Op, asks []Ask, id string, states []*State, now int64, changed []bool, out []Decision, charged []Charged,
) bool {
	return DecideHeld(op, asks, id, states, now, changed, out, charged, nil)
}

// DecideHeld is Decide with a function that may hold back takes. hold is called for each ask i whose weight fits,
// unless op is OpCharge. It returns whether the ask is denied although it fits, the wait before the next attempt, and
// the weight that would pass now.
func DecideHeld(
	op Op, asks []Ask, id string, states []*State, now int64, changed []bool, out []Decision, charged []Charged,
	hold func(i int) (left, wait int64, held bool),
) bool {
	all := true
	for i := range asks {
		l, s := asks[i].Limit, states[i]
		k := l.Algorithm.Traits().kernel
		changed[i] = s.Exists && k.rebase(l, s, now)
		ok, retry := k.fits(l, s, now, asks[i].Weight, id)
		out[i] = Decision{Allowed: ok, RetryAfter: retry, Limit: l.Capacity(), Rate: l.Rate()}
		charged[i] = Charged{}
		if ok && hold != nil && op != OpCharge {
			if left, wait, held := hold(i); held {
				ok = false
				out[i].Allowed, out[i].Held, out[i].RetryAfter, out[i].Remaining = false, true, wait, left
			}
		}
		out[i].Delay = delay(l, s, now, ok)
		all = all && ok
	}
	if op == OpCharge || (op == OpTake && all) {
		for i := range asks {
			if l, w := asks[i].Limit, asks[i].Weight; asks[i].Spends(op) {
				at := l.Algorithm.Traits().kernel.spend(l, states[i], now, w, id)
				charged[i] = Charged{At: at, Weight: w, Limit: l, Born: states[i].Born}
				states[i].Exists = true
				if l.Kept == KeptSet {
					fixedKernel{}.lower(l, states[i], now)
				}
				changed[i] = true
			}
		}
	}
	if op == OpTake && !all {
		countDenials(asks, states, now, changed, out)
		lowerDenied(asks, states, now, changed, out)
	}
	for i := range asks {
		left := out[i].Remaining
		if out[i].figures(asks[i].Limit, states[i], now); out[i].Held {
			out[i].Remaining = left
		}
	}
	return all
}

// lowerDenied lowers the limits that buckets keep, for denied takes whose limit is below the units that are already
// spent.
func lowerDenied(asks []Ask, states []*State, now int64, changed []bool, out []Decision) {
	for i := range asks {
		a, k := &asks[i], fixedKernel{}
		if a.Limit.Kept != KeptSet || out[i].Allowed || !a.Spends(OpTake) {
			continue
		}
		if used, _ := k.window(a.Limit, states[i], now); used > a.Limit.Count {
			k.lower(a.Limit, states[i], now)
			changed[i] = true
		}
	}
}

// Shut closes the bucket of a limit with Kept until its window ends: the limit that it keeps becomes 0.
func Shut(l Limit, s *State, now int64) (Decision, bool) {
	k := fixedKernel{}
	d := Decision{Allowed: true}
	if s.Exists {
		k.rebase(l, s, now)
	}
	k.shut(l, s, now)
	d.figures(l, s, now)
	return d, true
}

// figures sets what the bucket s says at time now.
func (d *Decision) figures(l Limit, s *State, now int64) {
	if l.Kept != KeptIgnored {
		d.Limit = fixedKernel{}.count(l, s, now)
	}
	room, reset := l.Algorithm.Traits().kernel.figures(l, s, now)
	d.SetRoom(room)
	d.Reset = reset
}

// Refund gives back c to one bucket at time now and returns the decision (Allowed, Remaining, Reset and Refunded) and
// whether the state changed. It gives back nothing if the bucket has started empty since then, or if an edit has mixed
// c with other charges.
func Refund(l Limit, s *State, now int64, c Charged) (Decision, bool) {
	k := l.Algorithm.Traits().kernel
	d := Decision{Allowed: true, Limit: l.Capacity(), Rate: l.Rate()}
	changed := s.Exists && k.rebase(l, s, now)
	if s.Exists && c.Weight > 0 && c.separable(l, s) {
		units, did := k.refund(l, s, now, c)
		d.Refunded = units
		changed = changed || did
	}
	d.figures(l, s, now)
	return d, changed
}

// RefundNow gives back up to w units, those spent last first, for a caller that
// did not name its charge. They may be units that others spent: name the charge
// where that matters.
func RefundNow(l Limit, s *State, now, w int64) (Decision, bool) {
	k := l.Algorithm.Traits().kernel
	d := Decision{Allowed: true, Limit: l.Capacity(), Rate: l.Rate()}
	changed := s.Exists && k.rebase(l, s, now)
	if s.Exists && w > 0 {
		units, did := k.refundNow(l, s, now, w)
		d.Refunded, changed = units, changed || did
	}
	d.figures(l, s, now)
	return d, changed
}

// refundAt gives back up to w units that were booked at the given times, in the order of the times.
func refundAt(k kernel, l Limit, s *State, now, w int64, times ...int64) (units int64, changed bool) {
	for _, at := range times {
		gave, did := k.refund(l, s, now, Charged{At: at, Weight: w - units})
		units, changed = units+gave, changed || did
		if units >= w {
			break
		}
	}
	return units, changed
}

// Release ends the slot held under id, or the oldest slot if id is "". Refunded is its weight, 0
// if none is held.
func Release(l Limit, s *State, now int64, id string) (Decision, bool) {
	k := slotKernel{}
	changed := s.Exists && k.rebase(l, s, now)
	d := Decision{Allowed: true, Limit: l.Capacity(), Rate: l.Rate()}
	if units, did := k.release(l, s, now, id); did {
		d.Refunded, changed = units, true
	}
	d.figures(l, s, now)
	return d, changed
}

// Renew restarts the slot held under id at now. Allowed is false if none is held.
func Renew(l Limit, s *State, now int64, id string) (Decision, bool) {
	k := slotKernel{}
	changed := s.Exists && k.rebase(l, s, now)
	ok := k.renew(l, s, now, id)
	d := Decision{Allowed: ok, Limit: l.Capacity(), Rate: l.Rate()}
	d.figures(l, s, now)
	return d, changed || ok
}

// Expires returns the instant (ms, on the state's clock) from which the state is
// equal to an absent one. Stores keep it at least until then.
func Expires(l Limit, s *State) int64 { return l.Algorithm.Traits().kernel.expires(l, s) }
