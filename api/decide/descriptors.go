package decide

import (
	"context"
	"sync/atomic"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/match"
)

// MaxDescriptors is the most descriptors of a call. The faces refuse calls with more.
const MaxDescriptors = 64

// DescriptorQuestion is one call of Envoy: several descriptors of a domain, each with its rule. They are taken together
// or not at all, except for reports; see AskedDescriptor. Domain must not be empty.
type DescriptorQuestion struct {
	Domain string
	// Descriptors are at most MaxDescriptors.
	Descriptors []AskedDescriptor
	// Look: nothing is spent, charged, refunded or released.
	Look bool
	// Origin is for records only.
	Origin Origin
	// Gone is as in Question.
	Gone *atomic.Bool
}

// AskedDescriptor is one descriptor of a call.
type AskedDescriptor struct {
	Entries []entries.Entry
	// Addend is in units, 0 to limiter.MaxExact; 0 looks without spending.
	Addend int64
	// Explicit: the caller sent the addend, for the descriptor or for the call. A rule with addend charge is then charged
	// whether or not it fits. Without an explicit addend nothing is a report.
	Explicit bool
	// Negative: the addend is given back. For a rule with concurrency, it releases the bucket's oldest lease, whatever the
	// addend: the lease that the oldest call took, with all of its units.
	Negative bool
	// Limit replaces the limit of the rule, or limits a descriptor without a rule if its domain is known. It is nil for
	// the rule's own.
	Limit *SentLimit
}

// SentLimit is a limit that comes with a descriptor. It has the bucket and the algorithm of the rule, with the default
// of its other settings; if that algorithm cannot decide such a limit exactly, it is a fixed window. It is never a
// shadow, a quota or unlimited, and neither soft nor on trial; a rule that is replaced or that replaces others does so
// only with its own limit. An override that blocks the key still does.
type SentLimit struct {
	// Count is in units per Window.
	Count int64
	// Window is in milliseconds.
	Window int64
}

// DescriptorAnswer is the answer to a DescriptorQuestion. The embedded Answer concerns the whole call: its verdict, and
// the limits from which headers and bodies for the client are made.
type DescriptorAnswer struct {
	Answer
	// Statuses has one element for each descriptor, in order.
	Statuses []DescriptorStatus
}

// DescriptorStatus is the decision on one descriptor.
type DescriptorStatus struct {
	State DescriptorState
	// Over: the descriptor is over its limit, and the rule enforces that.
	Over bool
	// Full: the rule is a quota without room, and another quota of the call has room.
	Full bool
	// Rule is nil if no rule applies.
	Rule *match.Compiled
	// Limit is the index in Answer.Limits, -1 if no limit applies.
	Limit int
	// Remaining is the number of units that remain after this descriptor, 0 or more. Other descriptors of the same bucket
	// may have spent more of it. It is 0 if no store decided (LimitAnswer.Known).
	Remaining int64
}

// DescriptorState is how a descriptor was treated.
type DescriptorState uint8

// The states.
const (
	// StateNoRule: no rule applies.
	StateNoRule DescriptorState = iota
	// StateUnlimited: the rule says unlimited, or an override of its key does.
	StateUnlimited
	// StateReplaced: the rule of another descriptor of the call replaces its rule.
	StateReplaced
	// StateLimited: a limit applies.
	StateLimited
)

// DoDescriptors answers a call. The error is ErrNoSet: a caller like Envoy lets every request pass after an error, so
// fail modes decide limits that the store cannot decide, limits deny while the store is overloaded, and failed refunds
// are only counted. It keeps no part of q. The slices of a are reused.
//
// The descriptors are decided in groups:
//
//   - Takes are made together or not at all, in one request to the store. Descriptors of one
//     bucket are added up.
//   - A report (see AskedDescriptor.Explicit) is charged independently of the other descriptors. It is over its limit
//     if it did not fit. Then the call is denied, and its takes are undone.
//   - Negative addends are given back independently, and are never over a limit.
//   - Quotas are taken independently where there is room, after the takes and only if the takes were allowed. They are
//     over their limits if all quotas of the call are; then the takes are undone.
//   - Shadow rules and candidates are decided independently and are never over a limit.
func (c *Checker) DoDescriptors(ctx context.Context, q *DescriptorQuestion, a *DescriptorAnswer) error {
	if c.opt.Trace == nil {
		return c.doDescriptors(ctx, q, a)
	}
	return c.traced(ctx, &q.Origin, &a.Answer, func(ctx context.Context) error { return c.doDescriptors(ctx, q, a) })
}

func (c *Checker) doDescriptors(ctx context.Context, q *DescriptorQuestion, a *DescriptorAnswer) error {
	w := c.work()
	defer w.release()
	start, lost := c.opt.Now(), c.lost()
	set := c.opt.Sets.Load()
	if set == nil {
		return ErrNoSet
	}
	w.addDescriptors(q, set, start, a)
	c.decide(ctx, w)
	p := &w.plans[0]
	c.answerDescriptors(ctx, w, p, q, a)
	took := c.opt.Now().Sub(start)
	c.observeDescriptors(w, p, q, a, took, c.starved(took, lost))
	return nil
}

func (c *Checker) observeDescriptors(w *work, p *plan, q *DescriptorQuestion, a *DescriptorAnswer, took time.Duration,
	starved bool) {
	w.decision = Decision{Answer: &a.Answer, Took: took, Outcome: p.outcome, By: p.by, Origin: q.Origin, Starved: starved}
	c.opt.Observe.ObserveDecision(&w.decision)
}

// takeQuotas takes the quotas of each call after its other takes, with one call of the store. decide has only looked at
// them. If the others were denied, the quotas count as denied with them.
func (c *Checker) takeQuotas(ctx context.Context, w *work) {
	w.again, w.retried = w.again[:0], w.retried[:0]
	for i := range w.plans {
		if w.plans[i].quotasLater {
			w.planQuotas(&w.plans[i])
		}
	}
	if len(w.again) == 0 {
		return
	}
	c.opt.Store.DoAll(ctx, w.again)
	for i, r := range w.retried {
		call, again := &w.calls[r.call], &w.again[i]
		call.Result, again.Result, call.Err = again.Result, call.Result, again.Err
	}
}

// planQuotas plans to take the quotas of a call if its other takes were allowed and a quota has room.
func (w *work) planQuotas(p *plan) {
	taken, quotas := &w.calls[p.from], w.calls[p.from+1:p.from+1+p.quotas]
	room := false
	for i := range quotas {
		room = room || quotas[i].Err != nil || quotas[i].Result.Allowed
		if taken.Err == nil || quotas[i].Err != nil {
			quotas[i].Request.Op = limiter.OpTake
		}
	}
	switch {
	case taken.Err != nil: // the fail modes decide
	case !taken.Result.Allowed || !room:
		for i := range quotas {
			quotas[i].Result.Allowed = false
		}
	default:
		for i := range quotas {
			w.repeat(&quotas[i], retry{call: p.from + 1 + i})
		}
	}
}

// undo gives back the takes of a call that a report or its quotas denied. It does so even if the
// caller has left, within the caller's deadline.
func (c *Checker) undo(ctx context.Context, a *Answer, limits []plannedLimit, taken *limiter.Call) {
	if timeout := c.timeout([]limiter.Call{*taken}); timeout > 0 {
		b := c.within(ctx, timeout)
		defer b.release()
		b.stay()
		ctx = b
	} else {
		ctx = context.WithoutCancel(ctx)
	}
	req := limiter.Request{Op: limiter.OpRefund, ID: taken.Request.ID, Asks: taken.Request.Asks}
	var res limiter.Result
	if err := c.opt.Store.Do(ctx, &req, &res); err != nil {
		c.observeFailure(err)
		for i := range limits {
			if limits[i].weight > 0 {
				c.opt.Observe.ObserveDoubt(Doubt{rules.ModeEnforce, limits[i].weight})
			}
		}
		return
	}
	for i := range limits {
		la := &a.Limits[i]
		la.Decision = res.Limits[limits[i].ask]
		la.Decision.Refunded = 0
		limits[i].subtractSpare(la, req.Op, true, nil)
	}
}
