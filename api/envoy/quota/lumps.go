package quota

import (
	"context"

	"sluice/api/decide"
	"sluice/limiter"
)

// keepFor is how long the record of a lump is kept after its charge, ms: its life, and the reports after that.
const keepFor = 2 * maxLife

// Board knows the demand of other nodes. It is safe for concurrent use.
type Board interface {
	// Exchange sends the demand of this node for a bucket to the others, for so many ms, and returns theirs.
	Exchange(ctx context.Context, key string, own Demand, life int64) (Demand, error)
}

// ruleOf returns what a Book has to know of the rule of a bucket.
func ruleOf(r *decide.LumpRule) Rule {
	out := Rule{Key: string(r.Key), Limit: r.Limit.Count, Window: r.Limit.Window, Part: r.Limit.Window,
		Refused: r.Refused != "", Unlimited: r.Unlimited, Kind: Ends}
	switch {
	case r.Drains():
		out.Kind, out.Capacity = Drains, r.Limit.Capacity()
	case !r.Ends():
		out.Kind, out.Part = Slides, r.Limit.Window/max(1, r.Limit.Buckets)
	}
	return out
}

// take asks the store for a lump. A failure is an Answer without units.
func take(ctx context.Context, c *decide.Checker, r *decide.LumpRule, want, least, sent int64) Answer {
	a := Answer{Rule: ruleOf(r), Sent: sent}
	l, err := c.TakeLump(ctx, r, want, least, a.Rule.Free(), min(keepFor, limiter.RecordKeepMax))
	if err != nil {
		return a
	}
	a.Units, a.Life, a.RetryAfter, a.Token = l.Units, l.Life, l.RetryAfter, &l
	return a
}
