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
	// Others returns the demand of other nodes.
	Others(ctx context.Context, key string) (Demand, error)
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

// take asks the store for a lump for a holder. A failure is an Answer without units. Only one goroutine at a time may
// ask the store for a holder.
func take(ctx context.Context, c *decide.Checker, h *Holder, r *decide.LumpRule, want, least, sent int64) Answer {
	a := Answer{Rule: ruleOf(r)}
	l, doubt, err := c.TakeLump(ctx, r, &decide.LumpWant{Units: want, Least: least, Free: a.Rule.Free(),
		Keep: min(keepFor, limiter.RecordKeepMax), Sent: sent, Doubt: h.doubt})
	if h.doubt = doubt; err != nil {
		return a
	}
	a.Units, a.Life, a.Sent, a.RetryAfter, a.Token = l.Units, l.Life, l.Sent, l.RetryAfter, &l
	return a
}
