package decide

import (
	"context"

	"sluice/limiter"
	"sluice/rules"
)

// Explanation says what the rules in force have to do with one request.
type Explanation struct {
	// SetVersion is the version of the rules, ActiveRules how many there are.
	SetVersion  int64
	ActiveRules int
	// Answer is what a check would answer now.
	Answer Answer
	// Rules are those that apply and the nearest misses among the others.
	Rules []ConsideredRule
}

// ConsideredRule is what one rule has to do with the request.
type ConsideredRule struct {
	rules.Considered
	// Bucket is the rule's bucket and Candidate its candidate's; nil where the rule
	// does not apply or has none.
	Bucket, Candidate *ConsideredLimit
	// Pool is what the rule's pool holds, nil where the rule does not apply or has
	// none.
	Pool *PoolShare
}

// ConsideredLimit is a limit before and after the request.
type ConsideredLimit struct {
	*LimitAnswer
	// After is how many units would remain afterwards.
	After int64
}

// PoolShare is a pool as one of its rules sees it.
type PoolShare struct {
	Name, Priority string
	// SharePercent is how much of the pool the priority may find in use.
	SharePercent int64
	PoolState
}

// Explain answers a question as Do would with a peek, and says which rules were
// considered under the same set. A direct question considers none. Errors are
// those of Do.
func (c *Checker) Explain(ctx context.Context, q *Question) (*Explanation, error) {
	w, _ := workPool.Get().(*work)
	defer w.release()
	set := c.opt.Sets.Load()
	if set == nil {
		return nil, ErrNoSet
	}
	q.Op = limiter.OpPeek
	now := c.opt.Now()
	if err := w.add(ctx, q, set, now); err != nil {
		return nil, err
	}
	c.decide(ctx, w)
	e := &Explanation{SetVersion: set.Version(), ActiveRules: set.Len()}
	if err := c.answer(ctx, w, &w.plans[0], &e.Answer); err != nil {
		return nil, err
	}
	if q.IsDirect {
		return e, nil
	}
	pools := map[*rules.CompiledPool]PoolState{} // each is read once
	for _, considered := range set.Explain(&q.Descriptor, q.Weight, now) {
		r := ConsideredRule{Considered: considered}
		if r.Matched {
			e.limits(&r)
			if p := r.Rule.Pool; p != nil {
				state, known := pools[p]
				if !known {
					state = c.PoolState(ctx, p)
					pools[p] = state
				}
				r.Pool = &PoolShare{p.Pool.Name, r.Rule.Priority, p.SharePercent(r.Rule.Priority), state}
			}
		}
		e.Rules = append(e.Rules, r)
	}
	return e, nil
}

// limits finds the limits of a rule that applies. Limits are taken together: what
// any of them denies is spent nowhere. A limit on trial counts by itself.
func (e *Explanation) limits(r *ConsideredRule) {
	for i := range e.Answer.Limits {
		la := &e.Answer.Limits[i]
		if la.Rule != r.Rule.Rule.Name {
			continue
		}
		limit := &ConsideredLimit{la, la.Decision.Remaining}
		if (e.Answer.Allowed() || la.Shadow) && la.Decision.Allowed && !r.Rule.ChargeReport {
			limit.After = max(0, limit.After-r.Weight)
		}
		if la.Candidate {
			r.Candidate = limit
		} else {
			r.Bucket = limit
		}
	}
}
