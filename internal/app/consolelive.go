package app

import (
	"context"
	"time"

	"sluice/api/decide"
	"sluice/internal/database"
	"sluice/internal/fleet"
	"sluice/rules"
	"sluice/web"
)

// livePages gives the console what its pages of rules, overrides, pools and hot
// keys need.
func livePages(db *database.DB, c *counters, checker *decide.Checker, reader *fleet.Reader) web.Live {
	return web.Live{
		Turns: db, Overrides: db, OverrideWriter: db, Pools: db, PoolWriter: db,
		Figures: reader, Watching: c.hot != nil,
		PoolState: func(ctx context.Context, p *rules.CompiledPool) web.PoolState {
			return shownPool(checker.PoolState(ctx, p))
		},
	}
}

func shownPool(s decide.PoolState) web.PoolState {
	out := web.PoolState{Used: s.Used, Capacity: s.Capacity}
	if s.Load != nil {
		out.Load, out.LoadFor = &s.Load.Utilization, time.Duration(s.Load.ExpiresInMS)*time.Millisecond
	}
	return out
}

var (
	_ web.RuleTurns      = (*database.DB)(nil)
	_ web.OverrideReader = (*database.DB)(nil)
	_ web.OverrideWriter = (*database.DB)(nil)
	_ web.PoolReader     = (*database.DB)(nil)
	_ web.PoolWriter     = (*database.DB)(nil)
	_ web.RuleFigures    = (*fleet.Reader)(nil)
)
