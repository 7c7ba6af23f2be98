package decide

import (
	"errors"

	"sluice/limiter"
	"sluice/rules"
)

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

// account tells what became of the units of an answered job.
func (c *Checker) account(w *work, j *job, a *Answer) {
	limits, enforced, calls := w.limits[j.first:j.end], j.enforced, w.calls[j.from:j.to]
	if enforced > 0 {
		c.accountEnforced(j, a, limits[:enforced], &calls[0])
		calls = calls[1:]
	}
	for i := range calls {
		p := &limits[enforced+i]
		mode, units := p.mode(), p.spends(a.Op)
		switch res := &calls[i].Result; {
		case calls[i].Err != nil:
			c.doubt(mode, a.Op, limits[enforced+i:enforced+i+1], calls[i].Err)
		case a.Op == limiter.OpRefund || a.Op == limiter.OpRelease:
			c.units(mode, OutcomeRefunded, ByStore, res.Limits[0].Refunded)
		case !spends(a.Op):
		case res.Replayed:
			c.units(mode, OutcomeReplayed, ByStore, units)
		case res.Allowed || a.Op == limiter.OpCharge:
			c.units(mode, OutcomeAdmitted, ByStore, units)
		default:
			c.units(mode, OutcomeDenied, ByLimit, units)
		}
	}
}

func (c *Checker) accountEnforced(j *job, a *Answer, limits []planned, main *limiter.Call) {
	if a.Op == limiter.OpRefund || a.Op == limiter.OpRelease {
		for i := range limits {
			c.units(rules.ModeEnforce, OutcomeRefunded, ByStore, a.Limits[i].Decision.Refunded)
		}
		return
	}
	if !spends(a.Op) {
		return
	}
	if main.Err != nil {
		c.doubt(rules.ModeEnforce, a.Op, limits, main.Err)
	}
	outcome, by := a.outcome()
	j.outcome, j.by = outcome, by
	for i := range limits {
		if outcome == OutcomeAdmitted && a.Limits[i].Degraded != "" {
			by = a.Limits[i].Degraded
		}
		c.units(rules.ModeEnforce, outcome, by, limits[i].spends(a.Op))
	}
}

// spends tells which operations the accounting is about.
func spends(op limiter.Op) bool { return op == limiter.OpTake || op == limiter.OpCharge }

// outcome is the outcome of a take or charge, and who is behind it. A charge is
// admitted whatever the limit says.
func (a *Answer) outcome() (outcome, by string) {
	switch {
	case a.Replayed:
		return OutcomeReplayed, ByStore
	case !a.Allowed() && a.Op == limiter.OpTake && a.Verdict == Unavailable:
		return OutcomeDenied, rules.FailClosed
	case !a.Allowed() && a.Op == limiter.OpTake && a.Degraded != "":
		return OutcomeDenied, rules.FailLocal
	case !a.Allowed() && a.Op == limiter.OpTake:
		return OutcomeDenied, ByLimit
	case a.Degraded != "":
		return OutcomeAdmitted, a.Degraded
	}
	return OutcomeAdmitted, ByStore
}

// units reports what is not nothing.
func (c *Checker) units(mode, outcome, by string, units int64) {
	if units > 0 {
		c.opt.Observe.ObserveUnits(Units{mode, outcome, by, units})
	}
}

// doubt reports the units of limits whose answer was lost.
func (c *Checker) doubt(mode string, op limiter.Op, limits []planned, err error) {
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
