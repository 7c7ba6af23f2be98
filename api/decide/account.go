package decide

import (
	"errors"

	"sluice/limiter"
	"sluice/rules"
)

// Accountant hears what the sum of docs/metrics.md is made of: what was admitted
// and who admitted it. An Observer that is also an Accountant gets these calls,
// under the same terms.
type Accountant interface {
	// ObserveAccount reports what became of one take or charge that an enforced
	// limit applied to: its outcome (OutcomeAdmitted and so on) and who said so.
	ObserveAccount(outcome, by string)
	// ObserveUnits reports the same for the units of one limit, and the units
	// that a refund or a release gave back (OutcomeRefunded).
	ObserveUnits(mode, outcome, by string, units int64)
	// ObserveDoubt reports units of one limit that the counter store may have
	// spent although its answer was lost.
	ObserveDoubt(mode string, units int64)
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

// account reports a settled answer. limits are what was planned, enforced ones
// first, and calls are those of the store, one for all enforced limits and one
// for each shadow limit.
func (c *Checker) account(a *Answer, limits []planned, enforced int, calls []limiter.Call) {
	if c.accountant == nil {
		return
	}
	if enforced > 0 {
		c.accountEnforced(a, limits[:enforced], &calls[0])
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

func (c *Checker) accountEnforced(a *Answer, limits []planned, main *limiter.Call) {
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
	c.accountant.ObserveAccount(outcome, by)
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
		c.accountant.ObserveUnits(mode, outcome, by, units)
	}
}

// doubt reports the units of limits whose answer was lost.
func (c *Checker) doubt(mode string, op limiter.Op, limits []planned, err error) {
	var se *limiter.StoreError
	if c.accountant == nil || !errors.As(err, &se) || !se.Unknown {
		return
	}
	for i := range limits {
		if units := limits[i].spends(op); units > 0 {
			c.accountant.ObserveDoubt(mode, units)
		}
	}
}
