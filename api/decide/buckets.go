package decide

import (
	"context"
	"fmt"
	"slices"

	"sluice/limiter"
	"sluice/rules/match"
)

// Buckets reads (OpPeek) or resets (OpReset) single buckets of a rule, independent of requests.
// It serves people. asks are passed to the store, res has a decision for each. The error is
// the store's: no fail mode decides.
func (c *Checker) Buckets(ctx context.Context, rule *match.Compiled, op limiter.Op, asks []limiter.Ask,
	res *limiter.Result) error {
	if op != limiter.OpPeek && op != limiter.OpReset {
		return fmt.Errorf("%w: %s is not for single buckets", limiter.ErrInvalid, op)
	}
	asks = slices.Clone(asks)
	for i := range asks {
		if rule.Own(asks[i].Key) {
			asks[i].Spans, asks[i].Guard, asks[i].SpanOf = rule.Global, rule.Guard, rule.SpanOf
		}
	}
	call := limiter.Call{Request: limiter.Request{Op: op, Asks: asks}}
	if timeout := c.timeout([]limiter.Call{call}); timeout > 0 {
		b := c.within(ctx, timeout)
		defer b.release()
		ctx = b
	}
	if err := c.opt.Store.Do(ctx, &call.Request, &call.Result); err != nil {
		return err
	}
	limits := make([]plannedLimit, len(asks))
	for i := range asks {
		limits[i] = plannedLimit{rule: rule, key: asks[i].Key, limit: asks[i].Limit, ask: i, failMode: rule.Rule.FailMode,
			plannedBan: plannedBan{lifts: asks[i].Limit.Algorithm == limiter.Ban}, former: asks[i].Former}
	}
	c.opt.Ledger.mirror(limits, &call)
	*res = call.Result
	return nil
}
