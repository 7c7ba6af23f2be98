package app

import (
	"context"
	"time"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/fleet"
	"sluice/limiter"
	"sluice/rules"
	"sluice/web"
)

// rulePages gives the console what its pages of rules and pools need.
func rulePages(cfg *config.Serve, db *database.DB, c *counters, checker *decide.Checker, reader *fleet.Reader) web.RulePages {
	style := reply.HeaderStyle{ResetDelta: cfg.ResetHeader == "delta"}
	return web.RulePages{
		Store: db, Pools: db, Figures: reader, Watching: c.hot != nil,
		Headers: func(rule string, l limiter.Limit, decided limiter.Decision, at int64) []web.Header {
			return headersOf(style, rule, l, decided, at)
		},
		PoolState: func(ctx context.Context, p *rules.CompiledPool) web.PoolState {
			return shownPool(checker.PoolState(ctx, p))
		},
	}
}

// headersOf are the headers of an answer that one limit of one rule gave.
func headersOf(style reply.HeaderStyle, rule string, l limiter.Limit, decided limiter.Decision, at int64) []web.Header {
	a := decide.Answer{Verdict: decide.Allowed, At: at, Limits: []decide.LimitAnswer{{Rule: rule, Limit: l, Decision: decided, Known: true}}}
	if !decided.Allowed {
		a.Verdict = decide.Denied
	}
	var out []web.Header
	style.Headers(&a, nil, func(name string, value []byte) {
		out = append(out, web.Header{Name: name, Value: string(value)})
	})
	return out
}

func shownPool(s decide.PoolState) web.PoolState {
	out := web.PoolState{Used: s.Used, Capacity: s.Capacity}
	if s.Load != nil {
		out.Load, out.LoadFor = &s.Load.Utilization, time.Duration(s.Load.ExpiresInMS)*time.Millisecond
	}
	return out
}
