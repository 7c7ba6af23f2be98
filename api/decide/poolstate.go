package decide

import (
	"context"

	"sluice/limiter"
	"sluice/rules/match"
)

// PoolState describes a pool at one moment.
type PoolState struct {
	// Used is the current consumption in units, rounded up, nil if the counter store is
	// unavailable.
	Used *int64 `json:"used"`
	// Capacity is the pool's limit in units.
	Capacity int64 `json:"capacity"`
	// Load is the fleet's report, nil if there is none or it has expired.
	Load *PoolLoad `json:"load"`
}

// PoolLoad is a report of the fleet on a pool.
type PoolLoad struct {
	// Utilization is the part of the pool that is in use: 0 for none, 1 for all.
	Utilization float64 `json:"utilization"`
	// ExpiresInMS is the time until the report expires.
	ExpiresInMS int64 `json:"expires_in_ms"`
}

// PoolState reads the state of a pool from the counter store. It spends nothing.
func (c *Checker) PoolState(ctx context.Context, p *match.CompiledPool) PoolState {
	s := PoolState{Capacity: p.Limit.Count, Load: c.poolLoad(p)}
	l := counting(p)
	req := limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{{Key: p.Key, Limit: l}}}
	var res limiter.Result
	if c.opt.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.opt.Timeout)
		defer cancel()
	}
	if err := c.opt.Store.Do(ctx, &req, &res); err == nil {
		used := l.Count - res.Limits[0].Remaining
		s.Used = &used
	}
	return s
}

func (c *Checker) poolLoad(p *match.CompiledPool) *PoolLoad {
	millionths, left, fresh := c.opt.Loads.Load(p.Pool.Name)
	if !fresh {
		return nil
	}
	return &PoolLoad{Utilization: float64(millionths) / 1e6, ExpiresInMS: left.Milliseconds()}
}
