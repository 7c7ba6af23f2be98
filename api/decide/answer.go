package decide

import (
	"sluice/limiter"
	"sluice/rules"
)

// Verdict is what was decided about a request as a whole. The zero value is none:
// nothing passes by an answer that nobody gave.
type Verdict uint8

// The verdicts.
const (
	// Allowed: no enforced limit denied. A renew is allowed if every lease was
	// still held, a charge if its weight still fitted.
	Allowed Verdict = iota + 1
	// Denied: an enforced limit did.
	Denied
	// Deferred: an enforced limit denied, and the request waits in the queue of its
	// rule.
	Deferred
	// Unavailable: a closed fail mode denied, because the store could not decide.
	Unavailable
)

// String names a verdict, for people.
func (v Verdict) String() string {
	switch v {
	case Allowed:
		return "allowed"
	case Denied:
		return "denied"
	case Deferred:
		return "deferred"
	case Unavailable:
		return "unavailable"
	}
	return "undecided"
}

// Answer is what the Checker says of one Question.
type Answer struct {
	Op      limiter.Op
	Verdict Verdict
	// Ticket names the deferred request, "" if it was not deferred. NotDeferred
	// says why a request that the rules would defer was denied: full or
	// unavailable.
	Ticket, NotDeferred string
	// Degraded is the fail mode that had a say (closed before local before
	// open), "" when the store decided everything.
	Degraded string
	// Replayed: the stored answer to an earlier request with the same id.
	Replayed bool
	// Soft and Elastic: allowed, but above an enforced limit of that throttle.
	Soft, Elastic bool
	// Lease is an opaque token for release and renew when concurrency leases
	// were taken, else "".
	Lease string
	// Reservation is an opaque token for settle, which ExpiresIn ms are left for,
	// when a reserve was allowed, else "".
	Reservation string
	ExpiresIn   int64
	// At is the store's time of the decision in ms since the epoch, 0 if unknown.
	At int64
	// Strictest is the index in Limits of the limit whose figures are the
	// answer's own, -1 when there is none.
	Strictest int
	// Limits has one entry for every limit that applied, enforced ones first.
	Limits []LimitAnswer
}

// Allowed says that the request may pass.
func (a *Answer) Allowed() bool { return a.Verdict == Allowed }

// Forget drops what a points to and keeps its memory.
func (a *Answer) Forget() {
	clear(a.Limits)
	*a = Answer{Limits: a.Limits[:0]}
}

// apply takes over the store's decisions on the enforced limits of a plan. The
// strictest gives the answer its figures.
func (a *Answer) apply(p *plan, limits []plannedLimit, call *limiter.Call) {
	res := &call.Result
	a.At, a.Replayed = res.At, res.Replayed
	for i := range limits {
		la := limits[i].answer()
		la.Decision, la.Known = res.Limits[i], true
		if l := &limits[i]; l.spare > 0 {
			var pool *limiter.Decision
			if l.raised > 0 {
				pool = &res.Limits[len(limits)+int(l.pool)-1-p.pools]
			}
			l.subtractSpare(&la, a.Op, res.Allowed, pool)
			a.Soft, a.Elastic = a.Soft || la.Soft, a.Elastic || la.Elastic
		}
		a.Limits = append(a.Limits, la)
		if a.Strictest < 0 || la.Decision.StricterThan(a.Limits[a.Strictest].Decision) {
			a.Strictest = i
		}
	}
	if !res.Allowed && (a.Op != limiter.OpRefund && a.Op != limiter.OpReset) {
		a.Verdict = Denied
	}
}

// applyApart lists the shadow limits and the candidates. They never change the
// answer's own figures, and one that the store could not decide counts as allowed.
func (c *Checker) applyApart(a *Answer, limits []plannedLimit, calls []limiter.Call) {
	for i := range limits {
		la := limits[i].answer()
		la.Shadow = true
		switch call := &calls[i]; {
		case call.Err != nil:
			la.Decision = limiter.Decision{Allowed: true, Limit: la.Limit.Capacity(), Rate: la.Limit.Rate()}
			la.Degraded = rules.FailOpen
			c.observeFailure(call.Err)
		default:
			la.Decision, la.Known = call.Result.Limits[0], true
			if l := &limits[i]; l.spare > 0 {
				var pool *limiter.Decision
				if l.raised > 0 {
					pool = &call.Result.Limits[1]
				}
				l.subtractSpare(&la, a.Op, call.Result.Allowed, pool)
			}
		}
		a.Limits = append(a.Limits, la)
	}
}

// Delay is how long an allowed request should wait before it starts, in ms: the longest
// delay of its limits.
func (a *Answer) Delay() int64 {
	var delay int64
	if !a.Allowed() {
		return 0
	}
	for i := range a.Limits {
		if la := &a.Limits[i]; !la.Shadow && la.Known {
			delay = max(delay, la.Decision.Delay)
		}
	}
	return delay
}

// RetryAfter is the answer's own retry-after in ms, false when it has none.
func (a *Answer) RetryAfter() (int64, bool) {
	if a.Strictest >= 0 {
		return a.Limits[a.Strictest].Decision.RetryAfter, true
	}
	// A closed fail mode cannot know when the store will be back; a second is a
	// polite guess, as RFC 9110 section 10.2.3 allows.
	return closedRetryAfterMS, !a.Allowed()
}

// closedRetryAfterMS is the guess of RetryAfter, in ms.
const closedRetryAfterMS = 1000

// LimitAnswer is one limit's part of an Answer.
type LimitAnswer struct {
	// Rule is the rule's name, "" for a direct limit, and Version its version.
	Rule    string
	Version int64
	Key     limiter.Key
	// Limit is the limit that was applied.
	Limit limiter.Limit
	// Decision is what it said. Only Allowed and Limit mean anything unless Known.
	Decision limiter.Decision
	// Known: a store decided. False when a fail mode did so without figures.
	Known bool
	// Shadow: computed and counted, but without a say. So is every candidate.
	Shadow bool
	// Candidate: the rule's candidate, beside its limit.
	Candidate bool
	// Soft and Elastic: allowed, but above the limit. A soft limit warns, an
	// elastic one had room in its pool.
	Soft, Elastic bool
	// Degraded is the fail mode that decided this limit, "" for the store.
	Degraded string
}

// Name is the name by which clients and metrics know the limit: its rule's, or
// rules.DirectRule.
func (la *LimitAnswer) Name() string {
	if la.Rule == "" {
		return rules.DirectRule
	}
	return la.Rule
}

// Mode is enforce, shadow or candidate.
func (la *LimitAnswer) Mode() string {
	switch {
	case la.Candidate:
		return ModeCandidate
	case la.Shadow:
		return rules.ModeShadow
	}
	return rules.ModeEnforce
}

// Display is the bucket's name for people, such as user:42, or the caller's own
// key for a direct limit. What looks like a credential shows as a hash.
func (la *LimitAnswer) Display() string {
	if la.Rule == "" {
		return rules.DisplayDirectKey(la.Key)
	}
	return rules.DisplayKey(la.Key)
}
