package decide

import (
	"slices"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// Verdict is the decision on a request as a whole. The zero value means that nothing was
// decided, and it never allows.
type Verdict uint8

// The verdicts.
const (
	// Allowed: no enforced limit denied. A renew is allowed if every lease was
	// still held, a charge if its weight still fitted.
	Allowed Verdict = iota + 1
	// Denied: an enforced limit denied.
	Denied
	// Deferred: an enforced limit denied, and the request waits in its rule's queue, or
	// without a ticket perhaps.
	Deferred
	// Unavailable: a closed fail mode denied, because the store could not decide.
	Unavailable
	// Shed: the request is within its limits, and a pool that sheds has no room for it.
	Shed
	// Overloaded: the counter store answers, and had no turn for the request in time. Nothing was decided or spent.
	Overloaded
)

// String returns the name of a verdict for people.
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
	case Shed:
		return "shed"
	case Overloaded:
		return "overloaded"
	}
	return "undecided"
}

// Answer is the Checker's answer to one Question.
type Answer struct {
	Op      limiter.Op
	Verdict Verdict
	// Ticket names the deferred request, "" if it was not deferred or if a deferred
	// one may or may not be in its queue. NotDeferred says why a request that the
	// rules would defer was denied: full or unavailable.
	Ticket, NotDeferred string
	// Impatient: an enforced limit of an overloaded request says deny. Otherwise it has waited for its turn.
	Impatient bool
	// Degraded is the fail mode that decided at least one enforced limit (closed before local before open). If there is
	// none, it is DegradedRegion if a limit spans regions and another region is disconnected, and "" otherwise.
	Degraded string
	// Cause is why the store could not decide, if Degraded is a fail mode.
	Cause limiter.Cause
	// Replayed: the stored answer to an earlier request with the same id.
	Replayed bool
	// Soft and Elastic: allowed, but above an enforced limit of that throttle.
	Soft, Elastic bool
	// Lease is an opaque token for release and renew if concurrency leases were taken, else "".
	Lease string
	// Reservation is an opaque token for settle if a reserve was allowed, else "". It expires
	// in ExpiresIn ms.
	Reservation string
	ExpiresIn   int64
	// Returns is the percentage of what was reserved that goes back if nobody settles it in time.
	Returns int64
	// Granted is the number of requests that an allowed reserve of several has charged. Its caller may decide them for
	// SpendWithin ms from the moment of sending, not at all if it is 0; if none was granted, it may deny them for that
	// time. Shrinks: the number that it may still admit falls evenly to 0 within that time.
	Granted     int64
	SpendWithin int64
	Shrinks     bool
	// At is the store's time of the decision in ms since the epoch, 0 if unknown.
	At int64
	// Route is the path of the request as it was sent, "" if none was. Dialect is the dialect of the question.
	Route, Dialect string
	// Strictest is the index in Limits of the limit whose figures the answer shows, -1 if there is none.
	Strictest int
	// Limits has one entry for every limit that applied, enforced ones first.
	Limits []LimitAnswer
}

// DegradedRegion marks answers about a limit that spans regions while another region is disconnected. Unlike a fail
// mode it says nothing about the counter store, which has decided.
const DegradedRegion = "region"

// ByFailMode reports whether Degraded of an answer or a limit is a fail mode of the counter store.
func ByFailMode(degraded string) bool { return degraded != "" && degraded != DegradedRegion }

// Allowed reports whether the request may pass.
func (a *Answer) Allowed() bool { return a.Verdict == Allowed }

// DeferralUnknown reports whether the request was denied and may or may not wait in its rule's queue.
func (a *Answer) DeferralUnknown() bool { return a.Verdict == Deferred && a.Ticket == "" }

// Forget clears a and keeps its memory for the next answer.
func (a *Answer) Forget() {
	clear(a.Limits)
	*a = Answer{Limits: a.Limits[:0]}
}

// apply applies the store's decisions on the enforced limits of a plan to the answer. The strictest limit provides the
// answer's figures. pools are the pools that the call counts into.
func (a *Answer) apply(p *plan, limits []plannedLimit, pools []plannedPool, call *limiter.Call) {
	res, shut, slows := &call.Result, false, false
	a.At, a.Replayed = res.At, res.Replayed
	for i := range limits {
		l, la := &limits[i], limits[i].answer(call)
		l.decided(&la, res.Limits)
		if l.spare > 0 && !l.lifts {
			var pool *limiter.Decision
			if l.raised > 0 {
				pool = &res.Limits[len(res.Limits)-p.poolsEnd+int(l.pool)-1] // pools come last
			}
			l.subtractSpare(&la, a.Op, res.Allowed, pool)
			a.Soft, a.Elastic = a.Soft || la.Soft, a.Elastic || la.Elastic
		}
		l.addBan(&la, res.Limits)
		if !res.Allowed {
			l.addShed(&la, pools, p.pools, res.Limits)
		}
		shut = shut || la.shut
		la.shutOff()
		slows = slows || la.Of != nil && (la.Of.Delay != nil || la.Of.TarpitMS != nil)
		a.Degraded = stronger(a.Degraded, la.Degraded)
		a.Limits = append(a.Limits, la)
		if !la.Known || la.Meter {
			continue
		}
		if a.Strictest < 0 || la.Decision.StricterThan(a.Limits[a.Strictest].Decision) {
			a.Strictest = i
		}
	}
	if !res.Allowed && (a.Op != limiter.OpRefund && a.Op != limiter.OpReset && a.Op != limiter.OpClose) {
		a.Verdict = Denied
		if a.onlyShed() {
			a.Verdict = Shed
		}
	}
	if shut {
		a.Verdict, a.Strictest = Unavailable, -1
	}
	if slows {
		a.slow(limits)
	}
}

// applyApart appends the shadow limits and the candidates. They never change the
// answer's figures, and one that the store could not decide counts as allowed.
func (c *Checker) applyApart(w *work, a *Answer, limits []plannedLimit, calls []limiter.Call) {
	for i := range limits {
		call := &calls[i]
		la := limits[i].answer(call)
		la.Shadow = true
		switch {
		case call.Err != nil:
			la.Decision = limiter.Decision{Allowed: true, Limit: la.Limit.Capacity(), Rate: la.Limit.Rate()}
			if la.Degraded, la.Overloaded = "", isOverload(call.Err); !la.Overloaded {
				la.Degraded = rules.FailOpen
				c.observeFailure(call.Err)
			}
		default:
			la.Decision, la.Known = call.Result.Limits[0], true
			if l := &limits[i]; l.spare > 0 {
				var pool *limiter.Decision
				if l.raised > 0 {
					pool = &call.Result.Limits[1]
				}
				l.subtractSpare(&la, call.Request.Op, call.Result.Allowed, pool)
			}
			if n := int(limits[i].pool); n > 0 && !call.Result.Allowed {
				limits[i].addShed(&la, w.pools[n-1:n], n-1, call.Result.Limits)
			}
		}
		la.Returned = returns(call.Request.Op)
		a.Limits = append(a.Limits, la)
	}
}

// Resets returns the number of limits that a reset, or an OpClose, reached, including limits of shadow rules and
// candidates.
func (a *Answer) Resets() (n int64) {
	for i := range a.Limits {
		if la := &a.Limits[i]; !la.Overloaded && !ByFailMode(la.Degraded) {
			n++
		}
	}
	return n
}

// returns reports whether an operation gives back units.
func returns(op limiter.Op) bool { return op == limiter.OpRefund || op == limiter.OpRelease }

// Delay is how long an allowed request should wait before it starts, in ms: the longest delay of its limits. For a
// denied request it is how long its denial should wait: the longest tarpit_ms of the limits that deny.
func (a *Answer) Delay() int64 {
	var delay int64
	if a.Verdict != Allowed && a.Verdict != Denied {
		return 0
	}
	for i := range a.Limits {
		if la := &a.Limits[i]; !la.Shadow && la.Known && la.Decision.Allowed == a.Allowed() {
			delay = max(delay, la.Decision.Delay)
		}
	}
	return delay
}

// RetryAfter returns the retry-after of the answer in ms, false if it has none.
func (a *Answer) RetryAfter() (int64, bool) {
	if a.Strictest >= 0 {
		return a.Limits[a.Strictest].Decision.RetryAfter, true
	}
	// A closed fail mode cannot know when the store will recover, nor an overloaded node when it has turns. One second
	// is an estimate, which RFC 9110 section 10.2.3 allows.
	return closedRetryAfterMS, !a.Allowed()
}

// closedRetryAfterMS is the estimate of RetryAfter, in ms.
const closedRetryAfterMS = 1000

// LimitAnswer is the part of one limit in an Answer.
type LimitAnswer struct {
	// Rule is the rule's name, and Version its version. Direct: the caller sent the limit; Rule is
	// then its name among several, "" if it is the only one.
	Rule    string
	Version int64
	Direct  bool
	// Message is the rule's text for denied clients, nil for the usual one.
	Message *rules.Message
	// Period is the kind of period that the window of Limit is, nil without a calendar.
	Period *rules.Period
	// Of is the rule as it is written, nil for a direct limit. Do not change it.
	Of *rules.Rule
	// Notify are the percentages of the limit at which the key is an alert, ascending; nil for none. Do not change them.
	Notify []int64
	Key    limiter.Key
	// Limit is the limit that was applied. Whole is the count of the whole limit, of which this is the part of a region
	// (rules.SpanShares, rules.CutOffShare); 0 of others.
	Limit limiter.Limit
	Whole int64
	// Weight is in units. Returned: they were given back, so that nothing was decided.
	Weight   int64
	Returned bool
	// Decision is the decision on the limit. Unless Known is set, only Allowed and Limit have a
	// meaning.
	Decision limiter.Decision
	// Known: a store decided. It is false if a fail mode decided without figures.
	Known bool
	// Shadow: the limit is computed and counted but never denies. Candidates have it set too.
	Shadow bool
	// Candidate: this is the limit of the rule's candidate.
	Candidate bool
	// Meter: the limit counts what passes and never denies (rules.Rule.IsMeter). It is in no figure of the answer.
	Meter bool
	// Soft and Elastic: allowed above the limit, because the limit is soft, or is elastic and
	// had room in its pool.
	Soft, Elastic bool
	// Ban is the time in ms until the key's ban ends, 0 if it has none. Decision.BanBegan says that this request began it.
	Ban int64
	// Shed is the pool that had no room for the request, "" if the limit itself denies or the pool does not. Priority
	// is then the priority of the limit's rule.
	Shed, Priority string
	// Overloaded: the counter store had no turn for this limit, so that nothing was decided on it. An enforced one then
	// denies, and a shadow one or a candidate counts as allowed.
	Overloaded bool
	// shut: no unit of the limit may be spent while another region is disconnected.
	shut bool
	// ConditionFailed: the rule applies because its condition could not be evaluated, which counts as true.
	ConditionFailed bool
	// Degraded is the fail mode that decided this limit, "" for the store, and DegradedRegion for the store while
	// another region is disconnected.
	Degraded string
}

// shutOff turns the decision on a limit that is shut into a decision of a closed fail mode, without figures.
func (la *LimitAnswer) shutOff() {
	if la.shut {
		la.Decision, la.Known = limiter.Decision{Limit: la.Limit.Capacity(), Rate: la.Limit.Rate()}, false
	}
}

// Name returns the limit's name for clients: Rule, or rules.DirectRule.
func (la *LimitAnswer) Name() string {
	if la.Rule == "" {
		return rules.DirectRule
	}
	return la.Rule
}

// Series returns the limit's name for metrics and figures: the name of its rule, or rules.DirectRule for
// every direct limit, because callers choose their names.
func (la *LimitAnswer) Series() string {
	if la.Direct {
		return rules.DirectRule
	}
	return la.Rule
}

// Hidden reports whether clients may learn nothing of the limit.
func (la *LimitAnswer) Hidden() bool { return la.Meter || la.Of != nil && la.Of.Hidden }

// Mode returns enforce, shadow or candidate.
func (la *LimitAnswer) Mode() string {
	switch {
	case la.Candidate:
		return ModeCandidate
	case la.Shadow:
		return rules.ModeShadow
	}
	return rules.ModeEnforce
}

// Display returns the bucket's name for people, such as user:42, or the caller's key for a
// direct limit. Values that look like credentials are shown as hashes.
func (la *LimitAnswer) Display() string {
	if la.Direct {
		return match.DisplayDirectKey(la.Key)
	}
	return match.DisplayKey(la.Key)
}

// WouldReplace reports whether this is the limit of a shadow rule which, if it were enforced, would replace the rule of
// another limit of the answer.
func (la *LimitAnswer) WouldReplace(other *LimitAnswer) bool {
	return la.Of != nil && la.Of.WouldReplace() && !la.ConditionFailed && other.Of != nil &&
		slices.Contains(la.Of.Replaces, other.Rule)
}

// stronger returns which of two fail modes the whole answer reports.
func stronger(a, b string) string {
	rank := func(m string) int {
		switch m {
		case rules.FailClosed:
			return 4
		case rules.FailLocal:
			return 3
		case rules.FailOpen:
			return 2
		case DegradedRegion:
			return 1
		}
		return 0
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}
