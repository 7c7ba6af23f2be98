package decide

import (
	"context"

	"sluice/limiter"
	"sluice/rules"
)

// answerDescriptors turns the decisions of the store on a call of descriptors into its answer, and reports the result
// for the units to the observer.
func (c *Checker) answerDescriptors(ctx context.Context, w *work, p *plan, q *DescriptorQuestion, a *DescriptorAnswer) {
	a.Answer = Answer{Op: p.op, Verdict: Allowed, Strictest: -1, Limits: a.Limits[:0]}
	limits, calls := w.limits[p.first:p.end], w.calls[p.from:p.to]
	together, alone, apart := limits[:p.enforced], limits[p.enforced:p.enforced+p.alone], limits[p.enforced+p.alone:]
	var taken *limiter.Call
	if p.enforced > 0 {
		taken, calls = &calls[0], calls[1:]
		if taken.Err == nil {
			a.apply(p, together, nil, taken)
		} else {
			c.degrade(ctx, &a.Answer, together, taken)
		}
	}
	spent := taken != nil && a.Allowed() && p.op == limiter.OpTake
	outcome, by := a.outcome()
	for i := range alone {
		if alone[i].quota && taken != nil && taken.Err != nil && !spent {
			calls[i].Request.Op = limiter.OpPeek // the fail modes denied already
		}
		c.applyAlone(ctx, &a.Answer, alone[i:i+1], &calls[i])
		c.accountAlone(&alone[i], &calls[i], &a.Limits[p.enforced+i])
	}
	a.decideAlone(p, alone)
	if spent && !a.Allowed() {
		outcome, by = a.outcome()
		if taken.Err == nil {
			c.undo(ctx, &a.Answer, together, taken)
			spent = false
		}
	}
	if taken != nil && p.op == limiter.OpTake {
		c.accountTogether(&a.Answer, together, taken, outcome, by)
		if spent && taken.Err == nil {
			c.opt.Ledger.mirror(together, taken)
		}
	}
	if !a.Allowed() && !returns(p.op) {
		c.retries(&a.Answer, limits[:p.enforced+p.alone])
	}
	a.findStrictest(p.enforced + p.alone)
	if a.Verdict == Overloaded {
		c.opt.Observe.ObserveOverload(a.Impatient)
	}
	if p.op == limiter.OpTake && p.enforced+p.alone > 0 {
		p.outcome, p.by = a.outcome()
	}
	a.slow(limits[:p.enforced+p.alone])
	c.applyApart(w, &a.Answer, apart, calls[p.alone:])
	for i := range apart {
		c.accountAlone(&apart[i], &calls[p.alone+i], &a.Limits[p.enforced+p.alone+i])
	}
	a.finish(q, limits, p, spent)
}

// applyAlone appends the decision on an enforced limit with a separate call.
func (c *Checker) applyAlone(ctx context.Context, a *Answer, limits []plannedLimit, call *limiter.Call) {
	l, op := &limits[0], call.Request.Op
	la := l.answer(call)
	switch {
	case call.Err == nil:
		la.Decision, la.Known = call.Result.Limits[0], true
		l.subtractSpare(&la, op, call.Result.Allowed, nil)
		l.addBan(&la, call.Result.Limits)
		la.shutOff()
		c.opt.Ledger.mirror(limits, call)
		if a.At == 0 {
			a.At = call.Result.At
		}
	case returns(op):
		c.observeFailure(call.Err)
		la.Decision = limiter.Decision{Allowed: true, Limit: la.Limit.Capacity(), Rate: la.Limit.Rate()}
		if la.Overloaded = isOverload(call.Err); !la.Overloaded {
			la.Degraded = rules.FailOpen
		}
		if d, ok := c.releaseLocally(ctx, l, call); ok {
			la.Decision, la.Known, la.Degraded = d, true, rules.FailLocal
			la.Limit = c.opt.Ledger.share(la.Limit)
		}
	default:
		one := Answer{Op: op, Verdict: Allowed, Strictest: -1}
		c.degrade(ctx, &one, limits, call)
		la, a.Cause = one.Limits[0], one.Cause
		a.Impatient = a.Impatient || one.Impatient
	}
	la.Returned = returns(op)
	a.Soft = a.Soft || la.Soft
	a.Limits = append(a.Limits, la)
}

// decideAlone completes the verdict with the enforced limits that have separate calls. Quotas deny only if all quotas
// of the call do.
func (a *Answer) decideAlone(p *plan, alone []plannedLimit) {
	answers, over := a.Limits[p.enforced:], false
	for i := range alone {
		if alone[i].quota && answers[i].Decision.Allowed {
			over = false
			break
		}
		over = over || alone[i].quota
	}
	for i := range answers {
		la := &answers[i]
		if alone[i].quota && !over {
			alone[i].full = !la.Decision.Allowed
			la.Decision.Allowed, la.Decision.RetryAfter = true, 0
			if la.Degraded == rules.FailClosed {
				la.Degraded = rules.FailOpen
			}
		}
		switch {
		case la.Decision.Allowed:
		case la.Degraded == rules.FailClosed, la.shut && !la.Overloaded:
			a.Verdict = Unavailable
		case la.Overloaded && a.Verdict == Allowed:
			a.Verdict = Overloaded
		case !la.Overloaded && (a.Verdict == Allowed || a.Verdict == Overloaded):
			a.Verdict = Denied // whatever the other limits would have said
		}
		a.Degraded = stronger(a.Degraded, la.Degraded)
	}
}

// findStrictest finds the strictest of the first limits, which are enforced. If a closed fail mode
// decides, or the node is overloaded, no limit explains the answer.
func (a *Answer) findStrictest(enforced int) {
	a.Strictest = -1
	for i := range a.Limits[:enforced] {
		if la := &a.Limits[i]; a.Verdict != Unavailable && a.Verdict != Overloaded && la.Known &&
			(a.Strictest < 0 || la.Decision.StricterThan(a.Limits[a.Strictest].Decision)) {
			a.Strictest = i
		}
	}
}

// finish completes the statuses. spent: the limits that were taken together spent their weights.
func (a *DescriptorAnswer) finish(q *DescriptorQuestion, limits []plannedLimit, p *plan, spent bool) {
	for i := len(a.Statuses) - 1; i >= 0; i-- {
		st := &a.Statuses[i]
		if st.Limit < 0 {
			continue
		}
		l, la := &limits[st.Limit], &a.Limits[st.Limit]
		d := &la.Decision
		st.Remaining, st.Over, st.Full = d.Remaining, !d.Allowed, l.full
		switch {
		case la.Shadow && st.Over:
			st.Remaining, st.Over = 0, false
		case st.Limit < p.enforced && l.weight > 0 && la.Known:
			// If several descriptors share a bucket, those that do not fit with the earlier ones are over the limit.
			units := q.Descriptors[i].units(q.Look)
			upTo, last := l.weight-l.after, l.after == 0 && units > 0
			if spent {
				st.Remaining += l.after
			}
			st.Over = st.Over && (last || upTo > d.Remaining)
			l.after += units
		}
	}
}
