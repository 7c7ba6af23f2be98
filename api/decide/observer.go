package decide

import (
	"errors"
	"time"

	"sluice/limiter"
	"sluice/rules"
)

// Observer receives the actions of the engine: for metrics, for the statistics of the fleet, for logs. Many goroutines
// call its methods during checks, so they must be fast, must not block and cannot fail.
//
// A type that needs only some events embeds NopObserver. One that must not miss any implements
// all methods itself, so that the compiler reports new ones.
type Observer interface {
	// ObserveDecision is called for every operation of a caller that got an answer, including
	// peeks, after the answer is complete and before it is sent. It is not called for Explain
	// and Buckets, which serve people.
	ObserveDecision(d *Decision)
	// ObserveUnits receives the result for the units of one limit of a take or charge, and the units that a refund, a
	// release or a settlement gave back.
	ObserveUnits(u Units)
	// ObserveDoubt receives units of one limit that the counter store may have spent although its response was lost.
	ObserveDoubt(d Doubt)
	// ObserveDegraded is called for one limit that the counter store could not decide.
	ObserveDegraded(d Degraded)
	// ObserveOverload is called for a request that failed because the counter store was overloaded: a take or peek that
	// was denied, or another operation that failed. impatient: a limit says deny, so it did not wait.
	ObserveOverload(impatient bool)
	// ObserveDeferral is called when the state of deferred requests changes.
	ObserveDeferral(d Deferral)
}

// Decision is one operation and its answer. It contains what the caller sent: an observer must
// not show that to anybody without the right to see it. It must not change a Decision and must
// copy what it keeps, because the memory is reused.
type Decision struct {
	// Question is nil if the caller sent a token instead: to release or renew a lease, or to
	// settle a reservation. It is nil for descriptors too.
	Question *Question
	Answer   *Answer
	// Took is how long the decision took.
	Took time.Duration
	// Starved: during a check this process was not run for longer than the store timeout. The answer is late, and that
	// says nothing about the store.
	Starved bool
	// Outcome is the result of a take or charge to which an enforced limit applied
	// (OutcomeAdmitted and so on), and By what decided it. Otherwise both are "".
	Outcome, By string
	// ID is the id under which the store records the operation, "" if there is none.
	ID     string
	Origin Origin
	// Lease: no request was decided. The caller decides the charged requests, or denies while none is left, and reports
	// its decisions when it settles.
	Lease bool
	// Settled is what a settle asked for, nil for other operations.
	Settled *Settlement
	// Untimed: nobody asked. A proxy reports the decisions of Settled, without a token. Took is 0 and is no duration.
	Untimed bool
}

// Units are units of one limit, more than 0. It contains nothing that the caller sent.
type Units struct {
	// Mode is the limit's: enforce, shadow or candidate.
	Mode        string
	Outcome, By string
	Count       int64
}

// Doubt is a number of units of one limit, more than 0, for which the store's response was lost.
type Doubt struct {
	Mode  string
	Count int64
}

// Degraded is the reason why the store could not decide a limit, and the fail mode that did.
type Degraded struct {
	// FailMode is "" if no fail mode applies: for a refund or a shadow rule.
	FailMode string
	Cause    limiter.Cause
}

// Deferral is a change of Count deferred requests of a rule.
type Deferral struct {
	// Rule is the rule's name, "" if it is no longer in force.
	Rule string
	// What is deferred, unknown, released, acked, dropped or refused. Reason is expired or unreadable for
	// dropped, full or unavailable for refused, and "" for the others.
	What, Reason string
	Count        int
	// Err is the error of an unavailable queue, whose outcome may be unknown; nil otherwise.
	Err error
}

// Outcomes of the accounting.
const (
	// OutcomeAdmitted: the request may pass. By ByStore, open or local.
	OutcomeAdmitted = "admitted"
	// OutcomeDenied: the request may not pass. By ByLimit, closed or local.
	OutcomeDenied = "denied"
	// OutcomeReplayed: the stored answer was given again and nothing was spent.
	// By ByStore.
	OutcomeReplayed = "replayed"
	// OutcomeRefunded: units were given back. By ByStore.
	OutcomeRefunded = "refunded"
	// OutcomeOverloaded: the node had no turn for the request, which was denied. By rules.OverloadDeny or
	// rules.OverloadWait.
	OutcomeOverloaded = "overloaded"
)

// What decided, if no fail mode did.
const (
	// ByStore is the counter store, admitting.
	ByStore = "store"
	// ByLimit is the counter store, denying.
	ByLimit = "limit"
	// ByCaller means that the caller decided, from units that were granted to it before.
	ByCaller = "caller"
)

// NopObserver ignores all events. Embed it.
type NopObserver struct{}

// ObserveDecision does nothing.
func (NopObserver) ObserveDecision(*Decision) {}

// ObserveUnits does nothing.
func (NopObserver) ObserveUnits(Units) {}

// ObserveDoubt does nothing.
func (NopObserver) ObserveDoubt(Doubt) {}

// ObserveDegraded does nothing.
func (NopObserver) ObserveDegraded(Degraded) {}

// ObserveOverload does nothing.
func (NopObserver) ObserveOverload(bool) {}

// ObserveDeferral does nothing.
func (NopObserver) ObserveDeferral(Deferral) {}

// Observers passes each event to several observers, in order.
type Observers []Observer

// ObserveDecision implements Observer.
func (os Observers) ObserveDecision(d *Decision) {
	for _, o := range os {
		o.ObserveDecision(d)
	}
}

// ObserveUnits implements Observer.
func (os Observers) ObserveUnits(u Units) {
	for _, o := range os {
		o.ObserveUnits(u)
	}
}

// ObserveDoubt implements Observer.
func (os Observers) ObserveDoubt(d Doubt) {
	for _, o := range os {
		o.ObserveDoubt(d)
	}
}

// ObserveDegraded implements Observer.
func (os Observers) ObserveDegraded(d Degraded) {
	for _, o := range os {
		o.ObserveDegraded(d)
	}
}

// ObserveOverload implements Observer.
func (os Observers) ObserveOverload(impatient bool) {
	for _, o := range os {
		o.ObserveOverload(impatient)
	}
}

// ObserveDeferral implements Observer.
func (os Observers) ObserveDeferral(d Deferral) {
	for _, o := range os {
		o.ObserveDeferral(d)
	}
}

// account reports the result for the units of an answered plan to the observer.
func (c *Checker) account(w *work, p *plan, a *Answer) {
	limits, calls := w.limits[p.first:p.end], w.calls[p.from:p.to]
	if p.enforced > 0 {
		switch {
		case returns(a.Op):
			for i := range p.enforced {
				c.observeUnits(rules.ModeEnforce, OutcomeRefunded, ByStore, a.Limits[i].Decision.Refunded)
			}
		case p.grant.within > 0 && !a.Allowed(): // its caller reports what it denies
		case a.Op == limiter.OpTake || a.Op == limiter.OpCharge:
			p.outcome, p.by = a.outcome()
			c.accountTogether(a, limits[:p.enforced], &calls[0], p.outcome, p.by)
		}
		calls, limits = calls[1:], limits[p.enforced:]
	}
	for i := range calls { // of shadow limits and candidates
		c.accountAlone(&limits[i], &calls[i], &a.Limits[p.enforced+i])
	}
}

// outcome returns the result of a take or charge, and what decided it.
func (a *Answer) outcome() (outcome, by string) {
	denied := a.Verdict != Allowed && a.Op == limiter.OpTake // a charge is admitted in any case
	switch {
	case a.Replayed:
		return OutcomeReplayed, ByStore
	case denied && a.Verdict == Unavailable:
		return OutcomeDenied, rules.FailClosed
	case denied && a.Verdict == Overloaded:
		return OutcomeOverloaded, overloadOf(a.Impatient)
	case denied && ByFailMode(a.Degraded):
		return OutcomeDenied, rules.FailLocal
	case denied:
		return OutcomeDenied, ByLimit
	case ByFailMode(a.Degraded):
		return OutcomeAdmitted, a.Degraded
	}
	return OutcomeAdmitted, ByStore
}

// overloadOf says by which overload a request was denied.
func overloadOf(impatient bool) string {
	if impatient {
		return rules.OverloadDeny
	}
	return rules.OverloadWait
}

// accountTogether reports the units of the limits of one take or charge, the first of the answer.
func (c *Checker) accountTogether(a *Answer, limits []plannedLimit, call *limiter.Call, outcome, by string) {
	if call.Err != nil {
		c.observeDoubt(rules.ModeEnforce, call.Request.Op, limits, call.Err)
	}
	for i := range limits {
		if outcome == OutcomeAdmitted && ByFailMode(a.Limits[i].Degraded) {
			by = a.Limits[i].Degraded
		}
		c.observeUnits(rules.ModeEnforce, outcome, by, limits[i].spends(call.Request.Op))
	}
}

// accountAlone reports the units of a limit with a call of its own. A shadow limit and a candidate
// that the store could not decide count nowhere.
func (c *Checker) accountAlone(l *plannedLimit, call *limiter.Call, la *LimitAnswer) {
	mode, op := l.mode(), call.Request.Op
	spends, units := op == limiter.OpTake || op == limiter.OpCharge, l.spends(op)
	switch res := &call.Result; {
	case call.Err != nil:
		c.observeDoubt(mode, op, []plannedLimit{*l}, call.Err)
		switch {
		case mode != rules.ModeEnforce || !spends:
		case la.Overloaded:
			c.observeUnits(mode, OutcomeOverloaded, overloadOf(call.Request.Impatient), units)
		case la.Degraded == "": // blocked
			c.observeUnits(mode, OutcomeDenied, ByLimit, units)
		case la.Degraded == rules.FailClosed || !la.Decision.Allowed && op == limiter.OpTake:
			c.observeUnits(mode, OutcomeDenied, la.Degraded, units)
		default:
			c.observeUnits(mode, OutcomeAdmitted, la.Degraded, units)
		}
	case returns(op):
		c.observeUnits(mode, OutcomeRefunded, ByStore, res.Limits[0].Refunded)
	case !spends:
	case res.Replayed:
		c.observeUnits(mode, OutcomeReplayed, ByStore, units)
	case res.Allowed || op == limiter.OpCharge:
		c.observeUnits(mode, OutcomeAdmitted, ByStore, units)
	default:
		c.observeUnits(mode, OutcomeDenied, ByLimit, units)
	}
}

// observeUnits reports units to the observer, if there are any.
func (c *Checker) observeUnits(mode, outcome, by string, units int64) {
	if units > 0 {
		c.opt.Observe.ObserveUnits(Units{mode, outcome, by, units})
	}
}

// observeDoubt reports the units of limits to the observer if the store's response was lost.
func (c *Checker) observeDoubt(mode string, op limiter.Op, limits []plannedLimit, err error) {
	var se *limiter.StoreError
	if !errors.As(err, &se) || !se.Unknown {
		return
	}
	for i := range limits {
		if units := limits[i].spends(op); units > 0 {
			c.opt.Observe.ObserveDoubt(Doubt{mode, units})
		}
	}
}

var (
	_ Observer = NopObserver{}
	_ Observer = Observers(nil)
)
