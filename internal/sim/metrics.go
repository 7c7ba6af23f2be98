package sim

import (
	"maps"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
)

// flow names one sum of the accounting metrics.
type flow struct{ outcome, by string }

// ObserveUnits records the results of enforced units.
func (o *observer) ObserveUnits(u decide.Units) {
	if u.Mode == rules.ModeEnforce && u.Outcome != decide.OutcomeRefunded {
		o.units[flow{u.Outcome, u.By}] += u.Count
	}
}

// expect adds the units that the metrics should show for one answer, by the actual result of its
// store call. own is the result of the node's own store, nil if that was not used.
func (o *observer) expect(q *decide.Question, p *plan, main *delivery, own *limiter.Result) {
	if q.Op != limiter.OpTake && q.Op != limiter.OpCharge {
		return
	}
	for i := range p.enforced {
		f := flow{decide.OutcomeAdmitted, decide.ByStore}
		switch mode := p.modes[i]; {
		case main.err == nil && main.res.Replayed, own != nil && own.Replayed && own.Allowed && !p.closed():
			f.outcome = decide.OutcomeReplayed
		case main.err == nil && !main.res.Allowed && q.Op == limiter.OpTake:
			f = flow{decide.OutcomeDenied, decide.ByLimit}
		case main.err == nil:
		case p.closed():
			f = flow{decide.OutcomeDenied, rules.FailClosed}
		case own != nil && !own.Allowed:
			f = flow{decide.OutcomeDenied, rules.FailLocal}
		default:
			f.by = mode
		}
		if w := p.enforced[i].Weight; w > 0 {
			o.expected[f] += w
		}
	}
}

// closed reports whether any enforced limit fails closed.
func (p *plan) closed() bool {
	for _, m := range p.modes {
		if m == rules.FailClosed {
			return true
		}
	}
	return false
}

// checkMetrics checks that the metrics of the latest questions are correct.
func (n *node) checkMetrics() error {
	if !maps.Equal(n.heard.units, n.heard.expected) {
		return broken("node %d's metrics say %v, it was %v", n.id, n.heard.units, n.heard.expected)
	}
	return nil
}
