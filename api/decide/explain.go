package decide

import (
	"context"

	"sluice/limiter"
	"sluice/rules/match"
)

// Explanation describes how the rules in force apply to one request.
type Explanation struct {
	// SetVersion is the version of the rules, ActiveRules their number.
	SetVersion  int64
	ActiveRules int
	// Answer is the answer that a check would get now.
	Answer Answer
	// Rules are the rules that apply and the nearest misses among the others.
	Rules []ConsideredRule
}

// ConsideredRule describes whether and how one rule applies to the request.
type ConsideredRule struct {
	match.Considered
	// Bucket is the rule's bucket and Candidate the bucket of its candidate, nil if the rule does not apply or has
	// none.
	Bucket, Candidate *ConsideredLimit
	// Pool is the state of the rule's pool, nil if the rule does not apply or has none.
	Pool *PoolShare
}

// ConsideredLimit is a limit before and after the request.
type ConsideredLimit struct {
	*LimitAnswer
	// After is the number of units that would remain after the request.
	After int64
	// Regions is what each region has spent, of a limit that spans regions; nil if that is unknown.
	Regions []limiter.RegionUnits
	// Home is the region that has the bucket, "" if each region has one.
	Home string
	// HeldBy is who holds units of the bucket.
	HeldBy []Held
}

// Held is units of a bucket that are charged, and that callers of one kind may spend.
type Held struct {
	// Kind is HeldByEnvoy.
	Kind string
	// Holders is how many callers hold units.
	Holders int
	// Units are charged and not known to be spent.
	Units int64
}

// HeldByEnvoy is the kind of the streams of Envoy's quota service.
const HeldByEnvoy = "envoy_quota"

// Held returns who holds units of a bucket of a rule, nil if nobody is known. Only rules for descriptors have holders.
// It serves people.
func (c *Checker) Held(ctx context.Context, rule *match.Compiled, key limiter.Key) []Held {
	if c.opt.Held == nil || rule.Rule.Descriptor == nil {
		return nil
	}
	return c.opt.Held(ctx, key)
}

// PoolShare is a pool from the point of view of one of its rules.
type PoolShare struct {
	Name, Priority string
	// SharePercent is the part of the pool up to which the priority may use it.
	SharePercent int64
	// Shed: the pool denies the priority above that part.
	Shed bool
	PoolState
}

// Explain answers a question like Do with a peek, and lists the rules that were considered in the same set; none for a
// direct question. It returns the same errors as Do.
func (c *Checker) Explain(ctx context.Context, q *Question) (*Explanation, error) {
	w := c.work()
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
	pools := map[*match.CompiledPool]PoolState{} // each is read once
	for _, considered := range set.Explain(&q.Descriptor, q.Weight, now) {
		r := ConsideredRule{Considered: considered}
		if r.Matched {
			e.limits(&r)
			if r.Bucket != nil {
				c.addRegions(ctx, r.Rule, r.Bucket)
			}
			if p := r.Rule.Pool; p != nil {
				state, known := pools[p]
				if !known {
					state = c.PoolState(ctx, p)
					pools[p] = state
				}
				r.Pool = &PoolShare{p.Pool.Name, r.Rule.Priority, p.SharePercent(r.Rule.Priority),
					p.Pool.Shed, state}
			}
		}
		e.Rules = append(e.Rules, r)
	}
	return e, nil
}

// addRegions adds where a bucket of a rule is, or what each region has spent in it.
func (c *Checker) addRegions(ctx context.Context, rule *match.Compiled, b *ConsideredLimit) {
	if c.opt.Regions == nil {
		return
	}
	b.Home = c.opt.Regions.Home(b.Key)
	if b.Known && rule.Spans(b.Key) {
		b.Regions = c.opt.Regions.Spent(ctx, b.Key, b.Limit)
	}
}

// limits finds the limits of a rule that applies. Limits are taken together: if one denies,
// nothing is spent. Shadow limits and candidates count separately.
func (e *Explanation) limits(r *ConsideredRule) {
	for i := range e.Answer.Limits {
		la := &e.Answer.Limits[i]
		if la.Rule != r.Rule.Rule.Name {
			continue
		}
		limit := &ConsideredLimit{LimitAnswer: la, After: la.Decision.Remaining}
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

// DescriptorExplanation describes how the rules in force apply to a call of descriptors.
type DescriptorExplanation struct {
	SetVersion  int64
	ActiveRules int
	// Answer is the answer that the call would get now.
	Answer      DescriptorAnswer
	Descriptors []ExplainedDescriptor
}

// ExplainedDescriptor describes the rule of one descriptor.
type ExplainedDescriptor struct {
	match.Explained
	State DescriptorState
	// Over: the descriptor would be over its limit. Full is as in DescriptorStatus.
	Over, Full bool
	// Bucket is nil if no limit applies.
	Bucket *ConsideredLimit
}

// ExplainDescriptors answers a call like DoDescriptors with a look, and explains the rule of each descriptor. It
// returns the same errors as DoDescriptors.
func (c *Checker) ExplainDescriptors(ctx context.Context, q *DescriptorQuestion) (*DescriptorExplanation, error) {
	set := c.opt.Sets.Load()
	if set == nil {
		return nil, ErrNoSet
	}
	q.Look = true
	e := &DescriptorExplanation{SetVersion: set.Version(), ActiveRules: set.Len()}
	if err := c.DoDescriptors(ctx, q, &e.Answer); err != nil {
		return nil, err
	}
	now := c.opt.Now()
	for i := range e.Answer.Statuses {
		st := &e.Answer.Statuses[i]
		d := ExplainedDescriptor{Explained: set.ExplainEntries(q.Domain, q.Descriptors[i].Entries, now), State: st.State,
			Over: st.Over, Full: st.Full}
		if st.Limit >= 0 {
			d.Bucket = &ConsideredLimit{LimitAnswer: &e.Answer.Limits[st.Limit], After: st.Remaining}
			if d.Rule != nil {
				c.addRegions(ctx, d.Rule, d.Bucket)
				d.Bucket.HeldBy = c.Held(ctx, d.Rule, d.Bucket.Key)
			}
			if e.Answer.Allowed() && !st.Over {
				d.Bucket.After = max(0, st.Remaining-q.Descriptors[i].Addend)
			}
		}
		e.Descriptors = append(e.Descriptors, d)
	}
	return e, nil
}
