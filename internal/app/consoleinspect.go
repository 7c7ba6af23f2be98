package app

import (
	"context"
	"errors"
	"fmt"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/internal/database"
	"sluice/internal/fleet"
	"sluice/limiter"
	"sluice/rules"
	"sluice/web"
)

// inspecting gives the console what its pages about requests and keys need, but
// for the denials.
func inspecting(checker *decide.Checker, db *database.DB) web.Inspect {
	return web.Inspect{
		Explain: func(ctx context.Context, d *rules.Descriptor, weight int64) (web.Explanation, error) {
			return explained(ctx, checker, d, weight)
		},
		Buckets: checker.Buckets, Resets: db,
	}
}

// explained asks the checker about a request, spending nothing.
func explained(ctx context.Context, checker *decide.Checker, d *rules.Descriptor, weight int64) (web.Explanation, error) {
	q := decide.Question{Op: limiter.OpPeek, Descriptor: *d, Weight: weight}
	var a decide.Answer
	set, considered, err := checker.Explain(ctx, &q, &a)
	if errors.Is(err, decide.ErrNoSet) {
		return web.Explanation{}, fmt.Errorf("%w: %w", rules.ErrUnavailable, err)
	}
	if err != nil {
		return web.Explanation{}, err
	}
	e := web.Explanation{
		SetVersion: set.Version(), Active: set.Len(), Allowed: a.Allowed(), Status: reply.Status(&a),
		Degraded: a.Degraded, Soft: a.Soft, Elastic: a.Elastic,
	}
	if a.Strictest >= 0 {
		e.Strictest, e.RetryAfter = a.Limits[a.Strictest].Rule, a.Limits[a.Strictest].Decision.RetryAfter
	}
	pools := map[*rules.CompiledPool]decide.PoolState{}
	for i := range considered {
		c := web.ConsideredRule{Considered: considered[i]}
		if c.Matched {
			c.Bucket, c.Candidate = figuresOf(&c.Considered, &a)
			if p := c.Rule.Pool; p != nil {
				state, known := pools[p]
				if !known {
					state = checker.PoolState(ctx, p)
					pools[p] = state
				}
				c.Pool = shareOf(c.Rule, &state)
			}
		}
		e.Rules = append(e.Rules, c)
	}
	return e, nil
}

// figuresOf are the bucket of a rule that applies and its candidate's.
func figuresOf(c *rules.Considered, a *decide.Answer) (bucket, candidate *web.BucketFigures) {
	for i := range a.Limits {
		la := &a.Limits[i]
		if la.Rule != c.Rule.Rule.Name {
			continue
		}
		d := &la.Decision
		f := web.FiguresOf(la.Limit, *d)
		f.Known, f.Soft, f.Elastic, f.Degraded = la.Known, la.Soft, la.Elastic, la.Degraded
		// Limits are taken together: what any of them denies is spent nowhere. A
		// limit on trial counts by itself.
		if spends := a.Allowed() || la.Shadow; spends && d.Allowed && !c.Rule.ChargeReport {
			f.After = max(0, d.Remaining-c.Weight)
		}
		if la.Candidate {
			candidate = f
		} else {
			bucket = f
		}
	}
	return bucket, candidate
}

func shareOf(c *rules.Compiled, state *decide.PoolState) *web.PoolShare {
	p := &web.PoolShare{
		Name: c.Pool.Pool.Name, Priority: c.Priority, SharePercent: c.Pool.SharePercent(c.Priority), Used: -1, Capacity: state.Capacity, Load: -1,
	}
	if state.Used != nil {
		p.Used = *state.Used
	}
	if state.Load != nil {
		p.Load = int64(state.Load.Utilization*100 + 0.5)
	}
	return p
}

var (
	_ web.DenialLog = (*fleet.Reader)(nil)
	_ web.Resets    = (*database.DB)(nil)
)
