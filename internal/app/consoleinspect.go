package app

import (
	"context"
	"errors"
	"fmt"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/internal/database"
	"sluice/rules"
	"sluice/web"
)

// inspecting gives the console what its pages about requests and keys need.
func inspecting(checker *decide.Checker, db *database.DB) web.Inspect {
	return web.Inspect{
		Explain: func(ctx context.Context, d *rules.Descriptor, weight int64) (web.Explanation, error) {
			return explained(ctx, checker, d, weight)
		},
		Buckets: checker.Buckets, Resets: db,
	}
}

// explained puts what the engine explains into the console's words.
func explained(ctx context.Context, checker *decide.Checker, d *rules.Descriptor, weight int64) (web.Explanation, error) {
	said, err := checker.Explain(ctx, &decide.Question{Descriptor: *d, Weight: weight})
	if errors.Is(err, decide.ErrNoSet) {
		return web.Explanation{}, fmt.Errorf("%w: %w", rules.ErrUnavailable, err)
	}
	if err != nil {
		return web.Explanation{}, err
	}
	a := &said.Answer
	e := web.Explanation{
		SetVersion: said.SetVersion, Active: said.ActiveRules, Allowed: a.Allowed(), Status: reply.Status(a),
		Degraded: a.Degraded, Soft: a.Soft, Elastic: a.Elastic,
	}
	if a.Strictest >= 0 {
		e.Strictest, e.RetryAfter = a.Limits[a.Strictest].Rule, a.Limits[a.Strictest].Decision.RetryAfter
	}
	for i := range said.Rules {
		r := &said.Rules[i]
		e.Rules = append(e.Rules, web.ConsideredRule{
			Considered: r.Considered, Bucket: figuresOf(r.Bucket), Candidate: figuresOf(r.Candidate), Pool: shareOf(r.Pool),
		})
	}
	return e, nil
}

func figuresOf(l *decide.ConsideredLimit) *web.BucketFigures {
	if l == nil {
		return nil
	}
	f := web.FiguresOf(l.Limit, l.Decision)
	f.After, f.Known, f.Soft, f.Elastic, f.Degraded = l.After, l.Known, l.Soft, l.Elastic, l.Degraded
	return f
}

func shareOf(p *decide.PoolShare) *web.PoolShare {
	if p == nil {
		return nil
	}
	out := &web.PoolShare{Name: p.Name, Priority: p.Priority, SharePercent: p.SharePercent, Used: -1, Capacity: p.Capacity, Load: -1}
	if p.Used != nil {
		out.Used = *p.Used
	}
	if p.Load != nil {
		out.Load = int64(p.Load.Utilization*100 + 0.5)
	}
	return out
}
