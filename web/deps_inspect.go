package web

import (
	"context"

	"sluice/internal/fleet"
	"sluice/limiter"
	"sluice/rules"
	"sluice/web/view"
)

// Inspect is what the pages about denials, single requests and keys need beside
// the rules. Every field must be given.
type Inspect struct {
	// Denials finds sampled denials of all nodes.
	Denials DenialLog
	// Explain says what the rules in force do with a request of a weight, spending
	// nothing. Errors wrap rules.ErrUnavailable while there are no rules.
	Explain func(ctx context.Context, d *rules.Descriptor, weight int64) (Explanation, error)
	// Buckets looks at buckets of a rule (limiter.OpPeek) or forgets them
	// (limiter.OpReset); res has a decision for each ask. The error is a *limiter.StoreError.
	Buckets func(ctx context.Context, rule *rules.Compiled, op limiter.Op, asks []limiter.Ask, res *limiter.Result) error
	// Resets keeps account of buckets that people reset.
	Resets Resets
}

func (i *Inspect) whole() bool {
	return i.Denials != nil && i.Explain != nil && i.Buckets != nil && i.Resets != nil
}

// FiguresOf are the figures of a decision that a store made on a limit.
func FiguresOf(l limiter.Limit, d limiter.Decision) *BucketFigures { return view.FiguresOf(l, d) }

type (
	// Explanation is what Inspect.Explain says.
	Explanation = view.Explanation
	// ConsideredRule is one rule of an Explanation.
	ConsideredRule = view.ConsideredRule
	// BucketFigures are what a bucket holds.
	BucketFigures = view.BucketFigures
	// PoolShare is what a rule may use of a pool.
	PoolShare = view.PoolShare
)

// DenialLog has sampled denials, the newest first.
type DenialLog interface {
	Denials(ctx context.Context, f fleet.Filter, n int) ([]fleet.Denial, error)
	// Denial finds one that is still kept.
	Denial(ctx context.Context, id string) (fleet.Denial, bool, error)
}

// Resets writes that a bucket of a rule is reset, and calls reset in between: the
// note stays if and only if that succeeds.
type Resets interface {
	NoteReset(ctx context.Context, actor rules.Actor, ruleID int64, key string, reset func(context.Context) error) error
}
