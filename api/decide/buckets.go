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
		if rule.Spans(asks[i].Key) {
			limit := plannedLimit{rule: rule, key: asks[i].Key, limit: asks[i].Limit, weight: asks[i].Weight}
			limit.span(c.opt.Regions, op)
			asks[i].Limit, asks[i].Spans, asks[i].Guard = limit.storeLimit(), true, limit.guard
		}
		if c.opt.Regions != nil && rule.Divides(asks[i].Key) {
			asks[i].Limit, _ = c.opt.Regions.Share(rule.Rule.ID, asks[i].Key, asks[i].Limit, 0)
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
