package decide

import (
	"errors"
	"time"

	"sluice/limiter"
	"sluice/rules"
)

// Observer hears what the engine does: for metrics, for the figures of the fleet,
// for whatever keeps a record. Its methods are called on the path of a check by any
// number of goroutines: they must be quick, must not block and must not fail.
//
// A type that wants some events only embeds NopObserver. One that must not miss any
// implements all methods itself, so that the compiler names what is new.
type Observer interface {
	// ObserveDecision hears of every operation that a caller put and that got an
	// answer, looks included, after the answer is complete and before it is sent. What
	// people look at (Explain, Buckets) is no such operation.
	ObserveDecision(d *Decision)
	// ObserveUnits hears what became of the units of one limit of a take or charge,
	// and of those that a refund, a release or a settlement gave back.
	ObserveUnits(u Units)
	// ObserveDoubt hears of units of one limit that the counter store may have spent
	// although its answer was lost.
	ObserveDoubt(d Doubt)
	// ObserveDegraded hears of one limit that the counter store could not decide.
	ObserveDegraded(d Degraded)
	// ObserveDeferral hears what becomes of deferred requests.
	ObserveDeferral(d Deferral)
}

// Decision is one operation and its answer. It sees what the caller sent: whoever
// hears it must show that to nobody who may not see it, must not change it, and
// must copy what is kept: its memory serves the next one.
type Decision struct {
	// Question is nil where a token stood for it: a lease released or renewed, a
	// reservation settled.
	Question *Question
	Answer   *Answer
	// Took is how long deciding took.
	Took time.Duration
	// Outcome is what became of a take or charge to which an enforced limit applied
	// (OutcomeAdmitted and so on), and By who said so; otherwise both are "".
	Outcome, By string
}

// Units are units of one limit, more than 0. Nothing in it is of the caller's.
type Units struct {
	// Mode is the limit's: enforce, shadow or candidate.
	Mode        string
	Outcome, By string
	Count       int64
}

// Doubt are units of one limit whose answer was lost, more than 0.
type Doubt struct {
	Mode  string
	Count int64
}

// Degraded says why the store could not decide a limit, and what did instead.
type Degraded struct {
	// FailMode is "" where there was nothing to decide: a refund, a shadow rule.
	FailMode string
	Cause    limiter.Cause
}

// Deferral is about Count deferred requests of a rule.
type Deferral struct {
	// Rule is its name, "" if it is not in force any more.
	Rule string
	// What is deferred, released, acked, dropped (with the Reason expired or
	// unreadable) or refused (full or unavailable). Reason is "" for the first three.
	What, Reason string
	Count        int
	// Err is why a queue was unavailable, nil otherwise.
	Err error
}

// Outcomes of the accounting.
const (
	// OutcomeAdmitted: the request may pass. By ByStore, open or local.
	OutcomeAdmitted = "admitted"
	// OutcomeDenied: it may not. By ByLimit, closed or local.
	OutcomeDenied = "denied"
	// OutcomeReplayed: the stored answer was given again and nothing was spent.
	// By ByStore.
	OutcomeReplayed = "replayed"
	// OutcomeRefunded: units were given back. By ByStore.
	OutcomeRefunded = "refunded"
)

// Who decided, where no fail mode did.
const (
	// ByStore is the counter store, admitting.
	ByStore = "store"
	// ByLimit is the counter store, denying.
	ByLimit = "limit"
)

// NopObserver hears nothing. It is there to be embedded.
type NopObserver struct{}

// ObserveDecision does nothing.
func (NopObserver) ObserveDecision(*Decision) {}

// ObserveUnits does nothing.
func (NopObserver) ObserveUnits(Units) {}

// ObserveDoubt does nothing.
func (NopObserver) ObserveDoubt(Doubt) {}

// ObserveDegraded does nothing.
func (NopObserver) ObserveDegraded(Degraded) {}

// ObserveDeferral does nothing.
func (NopObserver) ObserveDeferral(Deferral) {}

// Observers tells several, in order.
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

// ObserveDeferral implements Observer.
func (os Observers) ObserveDeferral(d Deferral) {
	for _, o := range os {
		o.ObserveDeferral(d)
	}
}

// account tells the observer what became of the units of an answered plan.
func (c *Checker) account(w *work, p *plan, a *Answer) {
	limits, calls := w.limits[p.first:p.end], w.calls[p.from:p.to]
	spending := a.Op == limiter.OpTake || a.Op == limiter.OpCharge
	refunding := a.Op == limiter.OpRefund || a.Op == limiter.OpRelease
	if p.enforced > 0 {
		switch {
		case refunding:
			for i := range p.enforced {
				c.observeUnits(rules.ModeEnforce, OutcomeRefunded, ByStore, a.Limits[i].Decision.Refunded)
			}
		case spending:
			if calls[0].Err != nil {
				c.observeDoubt(rules.ModeEnforce, a.Op, limits[:p.enforced], calls[0].Err)
			}
			denied := a.Verdict != Allowed && a.Op == limiter.OpTake // a charge is admitted in any case
			switch p.outcome, p.by = OutcomeAdmitted, ByStore; {
			case a.Replayed:
				p.outcome = OutcomeReplayed
			case denied && a.Verdict == Unavailable:
				p.outcome, p.by = OutcomeDenied, rules.FailClosed
			case denied && a.Degraded != "":
				p.outcome, p.by = OutcomeDenied, rules.FailLocal
			case denied:
				p.outcome, p.by = OutcomeDenied, ByLimit
			case a.Degraded != "":
				p.by = a.Degraded
			}
			by := p.by
			for i := range p.enforced {
				if p.outcome == OutcomeAdmitted && a.Limits[i].Degraded != "" {
					by = a.Limits[i].Degraded
				}
				c.observeUnits(rules.ModeEnforce, p.outcome, by, limits[i].spends(a.Op))
			}
		}
		calls, limits = calls[1:], limits[p.enforced:]
	}
	for i := range calls { // of shadow limits and candidates
		mode, units := limits[i].mode(), limits[i].spends(a.Op)
		switch res := &calls[i].Result; {
		case calls[i].Err != nil:
			c.observeDoubt(mode, a.Op, limits[i:i+1], calls[i].Err)
		case refunding:
			c.observeUnits(mode, OutcomeRefunded, ByStore, res.Limits[0].Refunded)
		case !spending:
		case res.Replayed:
			c.observeUnits(mode, OutcomeReplayed, ByStore, units)
		case res.Allowed || a.Op == limiter.OpCharge:
			c.observeUnits(mode, OutcomeAdmitted, ByStore, units)
		default:
			c.observeUnits(mode, OutcomeDenied, ByLimit, units)
		}
	}
}

// observeUnits tells the observer about units, if there are any.
func (c *Checker) observeUnits(mode, outcome, by string, units int64) {
	if units > 0 {
		c.opt.Observe.ObserveUnits(Units{mode, outcome, by, units})
	}
}

// observeDoubt tells the observer about the units of limits whose answer was lost.
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
